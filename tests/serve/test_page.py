"""The page in a real browser: a case from its beginning to its file, by keyboard, without a complaint."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from ascertain.estimator._advisor import Advisor
from ascertain.estimator._consultation import Consultation
from tests.analysis.report.browser import Browser
from tests.core.test_text import ORDINARY, UNSEEN
from tests.serve.cases import EVIL, Client

pytestmark = pytest.mark.needs("browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, client: Client) -> Page:
    page = browser.open(client.url)
    page.wait_for_selector("#recommendation strong")
    return page


def field(page: Page, form: str, column: str) -> Locator:
    return page.locator(f"#{form}-form").get_by_label(column, exact=True)


def focused_column(page: Page) -> str:
    return str(page.evaluate("document.activeElement.dataset.column"))


def wait_for_steps(page: Page, number: int) -> None:
    counted = "document.querySelectorAll('#path li:not(.none)').length"
    page.wait_for_function(f"number => {counted} === number", arg=number)


def test_before_the_first_step_the_chart_shows_probabilities_and_ranges(page: Page, advisor: Advisor) -> None:
    answer = Consultation(advisor).answer()
    assert page.locator("#lines circle").count() == len(advisor.classes)
    said = page.get_attribute("#lines svg", "aria-label") or ""
    for name, chance in answer.probabilities.items():
        assert f"{name} {100 * chance:.0f}%" in said
    bars = page.locator("#lines line.range")
    widths = bars.evaluate_all("bars => bars.map(bar => bar.x2.baseVal.value - bar.x1.baseVal.value)")
    assert min(widths) > 20  # hardly anything is known
    assert page.inner_text("#lines-caption").startswith("Each dot is the probability of a class now.")


def test_it_shows_what_results_would_change(page: Page, advisor: Advisor) -> None:
    outcomes = Consultation(advisor).answer().outcomes
    rows = page.locator(".outcomes tbody tr")
    assert rows.locator("th").all_inner_texts() == [each.result for each in outcomes]
    predicted = Consultation(advisor).answer().prediction
    for row, each in zip(rows.all(), outcomes, strict=True):
        assert f"{predicted} {100 * each.probabilities[predicted]:.0f}%" in row.inner_text()


def test_control_characters_of_names_are_shown_as_escapes(page: Page, client: Client) -> None:
    """Also where only assistive technology reads them."""
    model = client.send("GET", "/api/model").json()
    model["setups"] = [{"name": "vi\x1b[31msit\u202e", "cost": 3, "columns": ["scan"]}]
    page.route("**/api/model", lambda route: route.fulfill(json=model))
    page.reload()
    page.wait_for_selector("#recommendation strong")
    page.unroute("**/api/model")
    shown = r"vi\x1b[31msit\u202e"
    for label in (f"Price of {shown}", f"{shown}: not possible"):
        assert page.get_by_label(label, exact=True).count() == 1
    assert f"{shown} (set-up)" in page.locator(".prices th").all_text_contents()


def test_the_page_shows_what_is_unseen_as_the_terminal_does(page: Page) -> None:
    for text, shown in (*((each, each) for each in ORDINARY), *UNSEEN):
        if "\ud800" not in text:  # half a character, which no reply can hold
            assert page.evaluate("text => visible(text)", text) == shown


def test_going_past_the_budget_is_remarked(page: Page) -> None:
    assert page.is_hidden("#over")
    page.locator("#more").evaluate("element => element.open = true")
    field(page, "more", "scan").select_option("yes")
    field(page, "more", "systolic").fill("120")
    field(page, "more", "ecg").select_option("normal")
    page.locator("#more-form button.main").click()
    wait_for_steps(page, 1)
    assert page.inner_text("#over") == "1 over the budget of 12."


def test_a_case_by_keyboard(browser: Browser, page: Page, advisor: Advisor) -> None:
    assert page.inner_text("#recommendation strong") == "pressure"
    field(page, "start", "age").focus()
    page.keyboard.insert_text("95")
    assert "outside the training data: 20 to 80" in page.inner_text("#start-form .flag")
    page.keyboard.press("Tab")
    assert focused_column(page) == "sex"
    page.keyboard.press("ArrowDown")
    field(page, "start", "age").press("Enter")
    wait_for_steps(page, 1)
    assert page.inner_text("#path li").startswith("age 95 outside the training data, sex female · free")
    assert "Outside the training data: age." in page.inner_text("#outside")
    assert page.is_hidden("#start")  # all of it is known

    assert focused_column(page) == "systolic"  # what is asked for next
    page.keyboard.insert_text("120")
    page.keyboard.press("Enter")
    wait_for_steps(page, 2)
    assert page.inner_text("#recommendation strong") == "ecg"
    page.press("#next-form button[type=button]", "Enter")
    wait_for_steps(page, 3)
    assert page.inner_text("#path li:last-child") == "ecg skipped"
    assert [page.inner_text(f"#{place}") for place in ("spent", "left", "budget")] == ["2", "10", "12"]

    answer = Consultation(advisor).enter({"age": 95, "sex": "female"}).enter({"systolic": 120}).skip("ecg")
    likely = max(answer.answer().probabilities.values())
    assert f"{100 * likely:.1f}%" in page.inner_text("#prediction")
    assert page.locator("#lines circle").count() == 2 * 4  # classes, moments
    assert page.locator("#options tbody tr").count() == 4
    assert browser.complaints() == []


def test_what_is_expected_in_the_end_stands_beside_what_a_measurement_tells(
    browser: Browser, foreseeing_client: Client
) -> None:
    page = browser.open(foreseeing_client.url)
    page.wait_for_selector("#recommendation .ahead")
    ahead = foreseeing_client.advise({}).json()["ahead"]
    assert "by itself expected to remove" in page.inner_text("#recommendation .soft")
    assert page.inner_text("#recommendation .ahead") == (
        f"Then most likely {ahead['then']} ({ahead['then_share']:.0%}). "
        "Right in 93 of 100 such cases once the budget of 12 is spent."
    )
    page.press("#next-form button[type=button]", "Enter")  # the pressure cannot be measured
    wait_for_steps(page, 1)
    assert page.text_content("#recommendation .ahead strong") == EVIL  # and it is no markup
    assert page.evaluate("window.hacked === undefined")
    field(page, "more", "Budget for this case").fill("1")
    page.keyboard.press("Enter")
    expect(page.locator("#recommendation .ahead")).to_have_text(
        "Then stop. Right in 67 of 100 such cases once the budget of 1 is spent."
    )
    field(page, "more", "Budget for this case").fill("0")
    page.keyboard.press("Enter")
    expect(page.locator("#recommendation .ahead")).to_have_count(0)
    assert browser.complaints() == []


def test_a_step_can_be_taken_back_and_the_case_taken_home(browser: Browser, page: Page) -> None:
    field(page, "more", EVIL).focus()
    page.keyboard.insert_text("0.5")
    field(page, "more", "__proto__").focus()
    page.keyboard.insert_text("-1")
    page.keyboard.press("Enter")
    wait_for_steps(page, 1)
    page.press("#next-form button[type=button]", "Enter")
    wait_for_steps(page, 2)
    page.press("#undo", "Enter")
    wait_for_steps(page, 1)
    with page.expect_download() as download:
        page.press("#export", "Enter")
    assert download.value.suggested_filename == "case.json"
    file = download.value.path()
    expected = [{"values": {EVIL: 0.5, "__proto__": -1}, "skipped": None}]
    assert json.loads(file.read_text()) == {"budget": None, "entries": expected}

    page.press("#restart", "Enter")
    wait_for_steps(page, 0)
    page.set_input_files("#import", file)
    wait_for_steps(page, 1)
    assert page.inner_text("#path li") == f"{EVIL} 0.5, __proto__ -1 · cost 2"
    assert browser.complaints() == []


def test_a_file_that_holds_no_case_is_refused(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("{")
    page.set_input_files("#import", file)
    expect(page.locator("#failure")).to_have_text("other.json does not hold a case: it is not JSON.")
    file.write_text('{"entries": [{"values": {"agee": 1}}]}')
    page.set_input_files("#import", file)
    expect(page.locator("#failure")).to_contain_text("did you mean")
    assert page.inner_text("#recommendation strong") == "pressure"  # and the case is what it was


def test_names_are_never_markup(browser: Browser, page: Page) -> None:
    assert EVIL in page.locator("label").all_text_contents()
    assert page.inner_text("h1") == "Chest <i>pain</i>"
    for number in (1, 2):
        page.press("#next-form button[type=button]", "Enter")
        wait_for_steps(page, number)
    assert page.text_content("#recommendation strong") == EVIL
    assert page.evaluate("window.hacked === undefined")
    assert page.locator("img, b, i, main script").count() == 0
    assert browser.complaints() == []


# What crosses the right edge of its card; not what only screen readers see.
BEYOND_CARDS = """[...document.querySelectorAll(".card")].flatMap((card) => {
  const edge = card.getBoundingClientRect().right;
  const parts = [...card.querySelectorAll("*:not(.unseen)")].filter((part) => part.checkVisibility());
  return parts.filter((part) => part.getBoundingClientRect().right > edge).map((part) => part.outerHTML);
})"""


@pytest.mark.parametrize("width", [360, 400])
def test_words_are_not_broken_nor_pushed_out_on_a_telephone(
    browser: Browser, client: Client, width: int
) -> None:
    page = browser.open(client.url, width=width)
    page.wait_for_selector("#recommendation strong")
    page.evaluate(
        """[...document.querySelectorAll("#options th[scope=row]")][0].textContent = "ultrasound";
        for (const cell of document.querySelectorAll("#options .figure")) cell.textContent = "29% (0.294)";
        document.querySelector("#options tr:last-child td:nth-child(4) .figure").textContent = "2 + 5 set-up";
        """
    )
    assert page.evaluate(BEYOND_CARDS) == []
    lines = page.evaluate(
        """() => { const range = document.createRange();
        range.selectNodeContents(document.querySelector("#options th[scope=row]"));
        return new Set([...range.getClientRects()].map((each) => each.top)).size; }"""
    )
    assert lines == 1


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1280])
def test_it_fits_and_asks_nobody_else(browser: Browser, client: Client, width: int, dark: bool) -> None:
    page = browser.open(client.url, width=width, dark=dark)
    page.wait_for_selector("#recommendation strong")
    assert browser.complaints() == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(BEYOND_CARDS) == []
    assert all(url.startswith((client.url, "data:")) for url in browser.requests())
    background = "rgb(21, 23, 26)" if dark else "rgb(244, 243, 240)"
    expect(page.locator("body")).to_have_css("background-color", background)


def test_everything_has_a_name_and_nothing_a_handler(page: Page) -> None:
    unnamed = (
        "[...document.querySelectorAll('input, select, button, svg[role=img]')].filter(each => "
        "!(each.ariaLabel || each.textContent.trim() || each.labels?.length)).length"
    )
    assert page.evaluate(unnamed) == 0
    assert page.locator("[onclick], [onload], [onerror], [style]").count() == 0
    assert page.get_attribute("#recommendation", "aria-live") == "polite"
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))


def test_paper_has_the_case_and_no_buttons(page: Page) -> None:
    page.emulate_media(media="print")
    shown = "[...document.querySelectorAll('button, input, select')].filter(each => each.checkVisibility())"
    assert page.evaluate(f"{shown}.length") == 0
    assert page.is_visible("#path")
    assert page.is_visible("#cautions")
