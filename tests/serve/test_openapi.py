"""The OpenAPI document is true: requests made from it, valid or not, are answered as it says."""

from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from ascertain.estimator._advisor import Advisor
from ascertain.tables._columns import LARGEST
from tests.serve.cases import EVIL, Client

# Not among them: that everything of the right form is accepted. A column that is named twice has it, too.
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_headers_conformance,
    schemathesis.checks.response_schema_conformance,
    schemathesis.checks.negative_data_rejection,
]


def test_it_names_the_columns_of_the_model(client: Client, advisor: Advisor) -> None:
    found = client.send("GET", "/api/openapi.json").json()
    assert found["openapi"] == "3.1.0"
    entry = found["components"]["schemas"]["Entry"]["properties"]
    assert list(entry["values"]["properties"]) == [column.name for column in advisor.encoding.columns]
    assert entry["values"]["properties"]["ecg"]["anyOf"][0] == {"enum": [EVIL, "normal", "unclear"]}
    assert entry["values"]["properties"]["age"]["anyOf"][0]["maximum"] == LARGEST
    assert entry["skipped"]["enum"] == [*advisor.encoding.action_names, None]


@pytest.mark.parametrize(
    ("mode", "path", "method", "expected"),
    [
        (GenerationMode.POSITIVE, "/api/advice", "POST", {200, 422}),
        (GenerationMode.NEGATIVE, "/api/advice", "POST", {422}),
        (GenerationMode.POSITIVE, "/api/model", "GET", {200}),
        (GenerationMode.POSITIVE, "/api/health", "GET", {200}),
    ],
)
def test_answers_are_as_described(
    client: Client, mode: GenerationMode, path: str, method: str, expected: set[int]
) -> None:
    document = client.send("GET", "/api/openapi.json").json()
    operation = schemathesis.openapi.from_dict(document)[path][method]
    seen: Counter[int] = Counter()

    @settings(
        max_examples=40 if method == "POST" else 1,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def fuzz(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(mode))
        answer = case.call_and_validate(base_url=client.url, checks=CHECKS)
        seen[answer.status_code] += 1

    fuzz()
    assert expected <= set(seen)


def test_what_is_expected_in_the_end_is_as_described(foreseeing_client: Client) -> None:
    document = foreseeing_client.send("GET", "/api/openapi.json").json()
    operation = schemathesis.openapi.from_dict(document)["/api/advice"]["POST"]
    bodies: tuple[Any, ...] = ({}, {"budget": 2}, {"budget": 0})
    for body in bodies:
        case = operation.Case(body=body, media_type="application/json")
        case.call_and_validate(base_url=foreseeing_client.url, checks=CHECKS)
