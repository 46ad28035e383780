"""The JSON API: it says what a consultation says, and refuses the rest with a reason."""

import json
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import TypeAdapter

from ascertain import StoreError
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._consultation import Consultation, Entry
from ascertain.predictors._calibration import Calibrated
from ascertain.serve import About, create_app
from ascertain.serve._replies import Score
from tests.serve.cases import CLASSES, EVIL, TRACES, Client, Weighing, serving


def test_the_model_is_described(client: Client, advisor: Advisor) -> None:
    reply = client.send("GET", "/api/model")
    assert reply.status == 200
    found = reply.json()
    assert found["title"] == "Chest <i>pain</i>"
    assert found["classes"] == list(CLASSES)
    assert found["budget"] == 12
    assert "'<b>ill</b>', 'well'" in found["purpose"]
    assert found["provenance"]["Training rows"] == "48, repeats included"
    by_name = {column["name"]: column for column in found["columns"]}
    assert by_name["age"] == {
        "name": "age",
        "kind": "number",
        "categories": None,
        "low": 20,
        "high": 80,
        "known": True,
        "action": None,
    }
    assert by_name["ecg"]["categories"] == [EVIL, "normal", "unclear"]
    assert by_name["systolic"]["action"] == "pressure"
    assert [action["name"] for action in found["actions"]] == list(advisor.encoding.action_names)
    assert {"name": "pressure", "columns": ["systolic", "diastolic"], "cost": 2} in found["actions"]


def test_advice_is_what_the_consultation_says(client: Client, advisor: Advisor) -> None:
    consultation = Consultation(advisor).enter({"age": 95, "sex": "female"}).skip("ecg")
    consultation = consultation.enter({"systolic": 120})
    answer = consultation.answer()
    reply = client.advise(consultation.to_json())
    assert reply.status == 200
    found = reply.json()
    assert found["recommended"] == answer.recommended == EVIL
    assert found["probabilities"] == answer.probabilities
    assert found["spent"] == 2
    assert found["left"] == 10
    assert found["outside"] == ["age"]
    assert [option["action"] for option in found["options"]] == [each.action for each in answer.options]
    assert found["case"] == consultation.to_json()
    assert len(found["course"]) == 4
    assert found["course"][0] != found["course"][1]
    assert found["course"][1] == found["course"][2]  # skipping tells nothing about the case
    assert found["course"][3] == pytest.approx(found["probabilities"], abs=1e-6)
    assert found["course"][0] == pytest.approx(Consultation(advisor).answer().probabilities, abs=1e-6)


def test_a_policy_that_looks_ahead_says_what_it_expects(
    client: Client, foreseeing_client: Client, foreseeing: Advisor
) -> None:
    found = foreseeing_client.advise({}).json()["ahead"]
    assert found == vars(Consultation(foreseeing).answer().ahead)
    assert found["right_at_end"] == pytest.approx(13 / 14)  # as 12 are left
    assert found["then"] in ("ecg", "__proto__")  # the next one, or the last one
    assert 0.5 <= found["then_share"] < 1
    last = foreseeing_client.advise({"budget": 2}).json()
    assert (last["recommended"], last["ahead"]["then"], last["ahead"]["then_share"]) == ("pressure", None, 1)
    assert last["ahead"]["budget"] == 2
    assert foreseeing_client.advise({"budget": 20}).json()["ahead"]["budget"] == 12  # that of training
    assert foreseeing_client.advise({"budget": 0}).json()["ahead"] is None
    assert client.advise({}).json()["ahead"] is None


def test_one_program_says_what_two_say(advisor: Advisor) -> None:
    consultation = Consultation(advisor).enter({"age": 50, "systolic": 120})
    x, available = advisor.encoding.transform(consultation._rows())
    closed = np.array([True, False, False, True, False])
    advice, benefits, course = advisor.consult(x, available, 2.0, closed, budget=7.0)
    alone = x[-1:], available[-1:]
    advised = advisor.advise(*alone, np.array([2.0]), closed[None], np.array([7.0]))
    for found, expected in zip(advice, advised, strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(benefits, advisor.benefits(x[-1], available[-1]), atol=1e-6)  # rounding
    np.testing.assert_allclose(course, advisor.predict(x, available), atol=1e-6)


@pytest.mark.parametrize("steps", [15, 16, 40])  # the program takes 16 moments, the start among them
def test_the_course_is_as_long_as_the_case(advisor: Advisor, steps: int) -> None:
    case = Consultation(advisor)
    for value in range(steps - 1):
        case = replace(case, entries=(*case.entries, Entry(values={"age": 20.0 + value})))
    course = case.enter({"sex": "female"}).answer().course
    for moment in (0, 1, steps // 2, steps - 1):
        known = replace(case, entries=case.entries[:moment]).answer().probabilities
        assert course[moment] == pytest.approx(known, abs=1e-6)
    assert len(course) == steps + 1
    assert course[-1] == pytest.approx(case.enter({"sex": "female"}).answer().probabilities, abs=1e-6)


def test_no_case_compiles_anything(client: Client) -> None:
    client.advise({})
    before = TRACES[0]
    steps = [{"values": {"age": 30}}, {"skipped": "scan"}, {"values": {"ecg": EVIL, "__proto__": 0.5}}]
    for number in range(len(steps) + 1):
        assert client.advise({"entries": steps[:number]}).status == 200
        assert client.advise({"entries": steps[:number], "budget": 3 + number}).status == 200
    assert TRACES[0] == before


@pytest.mark.parametrize("score", [-np.inf, np.finfo(np.float32).min])
def test_what_a_policy_would_never_do_has_no_score(score: float) -> None:
    assert TypeAdapter(Score).validate_python(float(score)) is None
    assert TypeAdapter(Score).validate_python(-1.5) == -1.5


def test_a_score_that_json_has_no_word_for_is_null(client: Client) -> None:
    options = client.advise({}).json()["options"]
    assert {option["action"]: option["score"] for option in options}["__proto__"] is None


def test_a_case_may_have_its_own_budget_and_typed_texts(client: Client) -> None:
    found = client.advise({"budget": 1.5, "entries": [{"values": {"sex": " Female", "age": "40,5"}}]}).json()
    assert found["budget"] == 1.5
    assert not {option["action"]: option["affordable"] for option in found["options"]}["scan"]
    assert found["case"]["entries"] == [{"values": {"sex": "female", "age": 40.5}, "skipped": None}]
    stop = client.advise({"budget": 0}).json()
    assert (stop["recommended"], stop["why"]) == (None, "budget")


def values(**given: Any) -> dict[str, Any]:
    return {"entries": [{"values": given}]}


@pytest.mark.parametrize(
    ("case", "status", "message"),
    [
        (b"", 400, "not valid JSON"),
        (b"{", 400, "not valid JSON"),
        (b"\xff", 400, "not valid JSON"),
        (b'{"budget": NaN}', 400, "NaN is not a number"),
        (b'{"budget": 1e999}', 400, "too large"),
        (b'{"budget": 1, "budget": 2}', 400, "a key occurs twice"),
        (b'{"budget": ' + b"1" * 5000 + b"}", 400, "not valid JSON"),
        (b"[" * 100_000, 400, "nested too deeply"),
        ([], 422, "a case must be a JSON object"),
        (None, 422, "a case must be a JSON object"),
        ({"patient": 1}, 422, "patient: Extra inputs are not permitted"),
        ({"budget": -1}, 422, "budget: Input should be greater than or equal to 0"),
        ({"budget": "12"}, 422, "budget: Input should be a valid number"),
        ({"budget": 10**300}, 422, "budget: Input should be less"),
        ({"entries": {}}, 422, "entries: Input should be a valid list"),
        ({"entries": [{}] * 20_000}, 422, "at most 10000 items"),
        (values(agee=4), 422, "did you mean 'age'?"),
        (values(age=1e39), 422, "'age' takes a number (20 to 80 in training)"),
        (values(age=True), 422, "'age' takes a number"),
        (values(age=None), 422, "values.age"),
        (values(age=[1]), 422, "values.age"),
        (values(age="nan"), 422, "'nan' cannot be used"),
        (values(age="1,000"), 422, "without a comma"),
        (values(sex="\ud800"), 422, "'sex' takes one of 'female', 'male'"),
        (values(**{"\ud800": 1}), 422, "which is no column"),
        ({"entries": [{"skipped": "sex"}]}, 422, "there is no action 'sex'"),
        ({"entries": [{"skipped": "scan"}, {"skipped": "scan"}]}, 422, "skipped already"),
        ({"entries": [{"values": {"age": 30}}] * 2}, 422, "'age' is known already, as 30; undo it first"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(
    client: Client, case: Any, status: int, message: str
) -> None:
    reply = client.advise(case)
    assert reply.status == status
    assert message in reply.json()["error"]


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_other_types_are_refused(client: Client, kind: str) -> None:
    # A form of a foreign page could send these without asking.
    reply = client.send("POST", "/api/advice", b"{}", {"Content-Type": kind} if kind else {})
    assert reply.status == 415
    assert "application/json" in reply.json()["error"]


def test_a_charset_may_be_named(client: Client) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.send("POST", "/api/advice", b"{}", headers).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/advice", 405),
        ("POST", "/api/model", 405),
        ("OPTIONS", "/api/advice", 405),
        ("DELETE", "/", 405),
        ("GET", "/api/", 404),
        ("GET", "/api/advice/", 404),
        ("GET", "/../api.py", 404),
        ("GET", "/page.py", 404),
    ],
)
def test_other_methods_and_addresses(client: Client, method: str, path: str, status: int) -> None:
    reply = client.send(method, path)
    assert reply.status == status
    assert reply.json()["error"]
    assert ("allow" in reply.headers) == (status == 405)


@pytest.mark.parametrize("path", ["/", "/page.css", "/page.js", "/charts.js", "/api/health", "/nowhere"])
def test_every_answer_is_guarded(client: Client, path: str) -> None:
    headers = client.send("GET", path).headers
    rules = headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in rules
    assert "script-src 'self'" in rules
    assert "frame-ancestors 'none'" in rules
    assert not any("unsafe" in rule for rule in rules)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert not any(name.startswith("access-control") for name in headers)


def test_nothing_of_a_case_is_printed_or_sent(
    advisor: Advisor, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(consultation: Consultation) -> None:
        raise RuntimeError(f"the age is {consultation.values['age']}")

    with serving(advisor) as client:
        client.advise(values(age=41.41))
        client.advise(values(age="41.41 years"))
        monkeypatch.setattr(Consultation, "answer", fail)
        reply = client.advise(values(age=41.41))
    assert reply.status == 500
    assert reply.json() == {"error": "something went wrong here; the request was not at fault"}
    printed = "".join(capfd.readouterr())
    assert "RuntimeError in a request" in printed
    assert "41.41" not in printed


def test_a_model_that_predicts_no_numbers_is_not_served(advisor: Advisor) -> None:
    broken = Calibrated(Weighing(jnp.full(advisor.problem.n_features, jnp.nan)), jnp.asarray(1.0))
    with pytest.raises(StoreError, match="the model predicts NaN"):
        create_app(replace(advisor, predictor=broken), About.of(advisor))


def test_the_health_is_short(client: Client) -> None:
    assert json.loads(client.send("GET", "/api/health").body)["status"] == "ok"
    head = client.send("HEAD", "/api/health")
    assert (head.status, head.body) == (200, b"")
