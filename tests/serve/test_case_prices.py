"""This case's prices and forbidden measurements, and set-ups, by the API and on the page."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ascertain.estimator._advisor import Advisor
from ascertain.tables._setups import SharedSetup
from tests.analysis.report.browser import Browser
from tests.serve.cases import EVIL, TRACES, Client, serving


@pytest.fixture(scope="module")
def drawing(advisor: Advisor) -> Advisor:
    """The advisor, except that the pressure and the scan share a visit that costs 3."""
    setups = (SharedSetup("visit", 3.0, ("systolic", "diastolic", "scan")),)
    encoding = replace(advisor.encoding, setups=setups)
    problem = encoding.problem(float(advisor.problem.budget), [str(each) for each in advisor.classes])
    return replace(advisor, encoding=encoding, problem=problem)


@pytest.fixture(scope="module")
def visiting(drawing: Advisor) -> Iterator[Client]:
    with serving(drawing) as found:
        yield found


def test_the_first_of_a_set_up_pays_for_it(visiting: Client) -> None:
    assert visiting.send("GET", "/api/model").json()["setups"] == [
        {"name": "visit", "cost": 3, "columns": ["systolic", "diastolic", "scan"]}
    ]
    found = {each["action"]: each for each in visiting.advise({}).json()["options"]}
    assert (found["pressure"]["cost"], found["pressure"]["setup"]) == (5, 3)
    assert found["pressure"]["setups"] == ["visit"]
    assert not found["scan"]["affordable"]  # 13 of 12
    after = visiting.advise({"entries": [{"values": {"systolic": 120}}]}).json()
    found = {each["action"]: each for each in after["options"]}
    assert (after["spent"], found["scan"]["cost"], found["scan"]["setup"]) == (5, 10, 0)


def test_a_case_has_its_own_prices(client: Client) -> None:
    found = client.advise({"costs": {"pressure": 13}, "forbid": ["ecg"]}).json()
    assert "trained for other prices (pressure 13 instead of 2)" in found["notes"][0]
    options = {each["action"]: each for each in found["options"]}
    assert not options["pressure"]["affordable"]
    assert options["ecg"]["forbidden"]
    assert found["recommended"] not in ("pressure", "ecg", None)
    assert found["case"] == {"budget": None, "entries": [], "costs": {"pressure": 13}, "forbid": ["ecg"]}
    assert client.advise({}).json()["notes"] == []


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"costs": {"presure": 1}}, "did you mean 'pressure'"),
        ({"costs": {"pressure": -1}}, "the cost of 'pressure' is -1"),
        ({"costs": {"pressure": "1"}}, "costs.pressure"),
        ({"costs": [1]}, "costs"),
        ({"forbid": ["x"]}, "which cannot be measured"),
        ({"forbid": "ecg"}, "forbid"),
    ],
)
def test_mistakes_are_refused(client: Client, case: dict[str, object], says: str) -> None:
    reply = client.advise(case)
    assert reply.status == 422
    assert says in reply.json()["error"]


def test_other_prices_compile_nothing(client: Client) -> None:
    client.advise({})
    before = TRACES[0]
    client.advise({"costs": {"scan": 1.5}, "forbid": ["ecg"], "budget": 4})
    assert TRACES[0] == before


@pytest.mark.needs("browser")
def test_the_page_takes_prices_and_shows_set_ups(visiting: Client, tmp_path: Path) -> None:
    with Browser() as browser:
        page = browser.open(visiting.url)
        page.wait_for_selector("#recommendation strong")
        assert "costs 2 + 3 set-up of the 12 left" in page.inner_text("#recommendation").lower()
        assert "2 + 3 set-up" in page.inner_text("#options")
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        page.get_by_label("Price of pressure").fill("13")
        page.get_by_label("Price of visit").fill("0")
        page.get_by_label("ecg: not possible").check()
        page.locator("#more-form button.main").click()
        expect(page.locator("#notes")).to_contain_text("trained for other prices")
        assert page.text_content("#recommendation strong") == EVIL  # neither pressure nor ecg
        assert "not possible" in page.inner_text("#options")
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        page.get_by_label("Price of pressure").fill("2")
        page.get_by_label("Price of visit").fill("3")
        page.get_by_label("ecg: not possible").uncheck()
        page.locator("#more-form button.main").click()
        expect(page.locator("#notes")).to_be_empty()
        assert "costs 2 + 3 set-up of the 12 left" in page.inner_text("#recommendation").lower()
        assert browser.complaints() == []
