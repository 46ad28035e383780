"""The report in a real browser: it renders, its table works, nothing overflows and nothing complains."""

import csv
from collections.abc import Iterator

import pytest

from ascertain.analysis._artefacts import ARTEFACTS
from ascertain.analysis.report import write_report
from tests.analysis.report.browser import Browser
from tests.analysis.report.studies import Scores, grid, large_study, results_frame, write_study

pytestmark = pytest.mark.needs("browser")

EVIL = '=<img src=x onerror="alert(1)">, "quoted"'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    def scores(method: str, dataset: str, split: int) -> Scores:
        del dataset
        restricted = 0.7 + 0.01 * split - (0.1 if method == "aaco" else 0.0)
        return {"complete": 0.8, "restricted": restricted, "restored": 0.75}

    rows = [
        row
        for budget in (10, 5)
        for row in grid(
            scores, datasets=["cube", EVIL], methods=["aaco", "dime"], splits=range(3), budget=budget
        )
    ]
    folder = write_study(tmp_path_factory.mktemp("small"), results_frame(rows))
    with pytest.MonkeyPatch.context() as patch:  # two will do
        some = {name: ARTEFACTS[name] for name in ("main-summary", "damage")}
        patch.setattr("ascertain.analysis.report._page.ARTEFACTS", some)
        return write_report(folder).as_uri()


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = write_study(tmp_path_factory.mktemp("large"), large_study().results)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ascertain.analysis.report._page.ARTEFACTS", {})
        return write_report(folder).as_uri()


@pytest.fixture(scope="module")
def beyond(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A study of two restorers."""

    def scores(method: str, dataset: str, split: int) -> Scores:
        del dataset
        return {
            "complete": 0.8,
            "restricted": 0.6 + 0.01 * split,
            "restored": 0.7 - 0.15 * (method == "dime"),
        }

    rows = grid(scores, methods=["aaco", "dime"])
    rows += [row | {"restorer": "ensemble:6"} for row in rows if row["treatment"] == "restored"]
    folder = write_study(tmp_path_factory.mktemp("beyond"), results_frame(rows))
    with pytest.MonkeyPatch.context() as patch:
        some = {name: each for name, each in ARTEFACTS.items() if each.section == "recovered"}
        patch.setattr("ascertain.analysis.report._page.ARTEFACTS", some)
        return write_report(folder).as_uri()


def count(browser: Browser) -> str:
    return str(browser.run("document.getElementById('cells-count').textContent"))


def column(browser: Browser, name: str) -> list[str]:
    """The visible texts of a column."""
    return list(
        browser.run(
            "(() => { const table = document.getElementById('cells-table');"
            f"const at = [...table.tHead.rows[0].cells].findIndex(c => c.textContent === '{name}');"
            "return [...table.tBodies[0].rows].map(row => row.cells[at].textContent) })()"
        )
    )


def choose(browser: Browser, name: str, text: str) -> None:
    browser.page.select_option(f"#cells-form select[name={name}]", label=text)


def press(browser: Browser, selector: str) -> None:
    """Press a button as one does without a mouse."""
    browser.page.press(selector, "Enter")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_renders_without_overflow_or_complaint(
    browser: Browser, small: str, width: int, dark: bool
) -> None:
    browser.open(small, width=width, dark=dark)
    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("innerWidth") == width
    images = browser.run("[...document.images].map(image => image.complete && image.naturalWidth > 100)")
    assert images
    assert all(images)
    assert all(url == small or url.startswith("data:image/") for url in browser.requests())
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(21, 23, 26)" if dark else "rgb(255, 255, 255)")  # so the style is applied


@pytest.mark.parametrize("width", [360, 1280])
def test_what_restorers_recover_is_shown_without_overflow(browser: Browser, beyond: str, width: int) -> None:
    browser.open(beyond, width=width)
    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    shown = browser.run("[...document.querySelectorAll('#recovered h3')].map(title => title.textContent)")
    assert shown == [
        *("Recovered", "Recovered shares", "Recovered by dataset", "Recovered by policy", "Recovered losses")
    ]
    text = browser.run("document.getElementById('recovered').textContent")
    assert (
        "a policy loses on a dataset, by way of treating holes: PVAE 2, ensemble with 6 completions 2."
        in text
    )


def test_the_largest_budget_is_shown_first(browser: Browser, small: str) -> None:
    browser.open(small)
    assert count(browser) == "Rows 1 to 36 of 36 shown, 72 in the study."
    assert set(column(browser, "Budget")) == {"10"}
    choose(browser, "Budget", "all")
    assert count(browser) == "Rows 1 to 50 of 72 shown, 72 in the study."
    choose(browser, "Budget", "5")
    assert set(column(browser, "Budget")) == {"5"}


def test_filters_and_words_narrow_the_rows(browser: Browser, small: str) -> None:
    browser.open(small)
    choose(browser, "Treatment", "restored")
    choose(browser, "Method", "dime")
    assert count(browser) == "Rows 1 to 6 of 6 shown, 72 in the study."
    browser.page.focus("#cells-search")
    browser.page.keyboard.insert_text("onerror mcar")
    assert count(browser) == "Rows 1 to 3 of 3 shown, 72 in the study."
    assert set(column(browser, "Dataset")) == {EVIL}
    browser.page.keyboard.insert_text(" nowhere")
    assert count(browser) == "No row matches; 0 shown, 72 in the study."
    press(browser, "#cells-clear")
    assert count(browser) == "Rows 1 to 36 of 36 shown, 72 in the study."
    assert browser.complaints() == []


def test_a_header_sorts_by_keyboard(browser: Browser, small: str) -> None:
    browser.open(small)
    press(browser, "#cells-table th:nth-child(10) button")
    shown = column(browser, "Score")
    assert shown == sorted(shown)
    assert len(set(shown)) > 2
    assert browser.run("document.querySelector('#cells-table th:nth-child(10)').ariaSort") == "ascending"
    press(browser, "#cells-table th:nth-child(10) button")
    assert column(browser, "Score") == sorted(shown, reverse=True)
    assert browser.run("document.querySelectorAll('[aria-sort]').length") == 1


def test_what_is_shown_can_be_taken_home(browser: Browser, small: str) -> None:
    browser.open(small)
    choose(browser, "Treatment", "restricted")
    with browser.page.expect_download() as download:
        press(browser, "#cells-download")
    assert download.value.suggested_filename == "cells.csv"
    rows = list(csv.DictReader(download.value.path().read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 12
    assert {row["treatment"] for row in rows} == {"restricted"}
    assert {row["dataset"] for row in rows} == {"cube", f"'{EVIL}"}  # no formula for a spreadsheet
    scores = sorted({row["score"] for row in rows})
    assert scores == ["0.6", "0.61", "0.62", "0.7", "0.71", "0.72"]


def test_many_cells_stay_quick(browser: Browser, large: str) -> None:
    browser.open(large, width=360)
    assert count(browser) == "Rows 1 to 50 of 6,000 shown, 24,000 in the study."
    assert browser.run("document.documentElement.scrollWidth") <= 360
    begin = "const begin = performance.now();"
    search = "const box = document.getElementById('cells-search'); box.value = 'data-3 restored';"
    fire = "box.dispatchEvent(new Event('input'));"
    milliseconds = browser.run(f"(() => {{ {begin} {search} {fire} return performance.now() - begin }})()")
    assert count(browser) == "Rows 1 to 50 of 280 shown, 24,000 in the study."
    assert milliseconds < 1000  # about 30 on a machine with nothing else to do
    press(browser, "#cells-next")
    assert browser.run("document.getElementById('cells-page').textContent") == "Page 2 of 6"
    assert count(browser) == "Rows 51 to 100 of 280 shown, 24,000 in the study."
    assert browser.complaints() == []


def test_every_kind_of_complaint_is_heard(browser: Browser) -> None:
    policy = '<meta http-equiv="Content-Security-Policy" content="img-src data:">'
    script = "<script>console.warn('odd'); setTimeout(() => { throw Error('broken') })</script>"
    browser.open(f"data:text/html,{policy}{script}<img src='http://localhost:9/'>")
    found = " ".join(browser.complaints())
    assert "odd" in found
    assert "broken" in found
    assert "Content Security Policy" in found
