"""The page in a real browser: a case from its beginning to its file, by keyboard, without a complaint."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ascertain.estimator.advisor import Advisor
from ascertain.estimator.consultation import Consultation
from tests.analysis.report.browser import Browser
from tests.serve.cases import EVIL, Client

pytestmark = pytest.mark.needs("browser")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, client: Client) -> Browser:
    browser.open(client.url)
    wait(browser, "document.querySelector('#recommendation strong') !== null")
    return browser


def wait(browser: Browser, condition: str) -> None:
    """Wait until something holds in the page."""
    limit = time.monotonic() + 10
    while not browser.run(condition):
        assert time.monotonic() < limit, condition
        browser.run("new Promise(done => setTimeout(done, 20))")


def steps(browser: Browser, number: int) -> None:
    wait(browser, f"document.querySelectorAll('#path li:not(.none)').length === {number}")


def text(browser: Browser, selector: str) -> str:
    return str(browser.run(f"document.querySelector({json.dumps(selector)}).innerText"))


def focus(browser: Browser, form: str, column: str) -> None:
    browser.run(
        f"[...document.querySelectorAll('#{form}-form [data-column]')]"
        f".find(field => field.dataset.column === {json.dumps(column)}).focus()"
    )


def press(browser: Browser, key: str, number: int = 0, typed: str | None = None) -> None:
    more: dict[str, Any] = {"windowsVirtualKeyCode": number} | ({} if typed is None else {"text": typed})
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, **more)


def enter(browser: Browser) -> None:
    press(browser, "Enter", 13, "\r")


def click(browser: Browser, selector: str) -> None:
    browser.run(f"document.querySelector({json.dumps(selector)}).focus()")
    enter(browser)


def test_a_case_by_keyboard(page: Browser, advisor: Advisor) -> None:
    assert text(page, "#recommendation strong") == "pressure"
    focus(page, "start", "age")
    page.call("Input.insertText", text="95")
    assert "outside of training: 20 to 80" in text(page, "#start-form .flag")
    press(page, "Tab", 9)
    assert page.run("document.activeElement.dataset.column") == "sex"
    press(page, "ArrowDown", 40)
    focus(page, "start", "age")
    enter(page)
    steps(page, 1)
    assert text(page, "#path li").startswith("age 95 outside training, sex female · free")
    assert "Outside of what training had: age." in text(page, "#outside")
    assert page.run("document.getElementById('start').hidden")  # all of it is known

    assert page.run("document.activeElement.dataset.column") == "systolic"  # what is asked for next
    page.call("Input.insertText", text="120")
    enter(page)
    steps(page, 2)
    assert text(page, "#recommendation strong") == "ecg"
    click(page, "#next-form button[type=button]")
    steps(page, 3)
    assert text(page, "#path li:last-child") == "ecg skipped"
    assert [text(page, f"#{place}") for place in ("spent", "left", "budget")] == ["2", "10", "12"]

    answer = Consultation(advisor).enter({"age": 95, "sex": "female"}).enter({"systolic": 120}).skip("ecg")
    likely = max(answer.answer().probabilities.values())
    assert f"{100 * likely:.1f}%" in text(page, "#prediction")
    assert page.run("document.querySelectorAll('#lines circle').length") == 2 * 4  # classes, moments
    assert page.run("document.querySelectorAll('#options tbody tr').length") == 4
    assert page.complaints() == []


def test_a_step_can_be_taken_back_and_the_case_taken_home(page: Browser) -> None:
    focus(page, "more", EVIL)
    page.call("Input.insertText", text="0.5")
    focus(page, "more", "__proto__")
    page.call("Input.insertText", text="-1")
    enter(page)
    steps(page, 1)
    click(page, "#next-form button[type=button]")
    steps(page, 2)
    click(page, "#undo")
    steps(page, 1)
    click(page, "#export")
    file = page.downloads / "case.json"
    limit = time.monotonic() + 10
    while not (file.is_file() and file.stat().st_size) and time.monotonic() < limit:
        page.run("new Promise(done => setTimeout(done, 20))")
    expected = [{"values": {EVIL: 0.5, "__proto__": -1}, "skipped": None}]
    assert json.loads(file.read_text()) == {"budget": None, "entries": expected}

    click(page, "#restart")
    steps(page, 0)
    choose_file(page, file)
    steps(page, 1)
    assert text(page, "#path li") == f"{EVIL} 0.5, __proto__ -1 · cost 2"
    assert page.complaints() == []


def choose_file(page: Browser, file: Path) -> None:
    found = page.call("Runtime.evaluate", expression="document.getElementById('import')")
    page.call("DOM.setFileInputFiles", files=[str(file)], objectId=found["result"]["objectId"])


def test_a_file_that_holds_no_case_is_refused(page: Browser, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text("{")
    choose_file(page, file)
    wait(page, "!document.getElementById('failure').hidden")
    assert text(page, "#failure") == "other.json does not hold a case: it is not JSON."
    file.write_text('{"entries": [{"values": {"agee": 1}}]}')
    choose_file(page, file)
    wait(page, "document.getElementById('failure').textContent.includes('did you mean')")
    assert text(page, "#recommendation strong") == "pressure"  # and the case is what it was


def test_names_are_never_markup(page: Browser) -> None:
    assert EVIL in page.run("[...document.querySelectorAll('label')].map(label => label.textContent)")
    assert text(page, "h1") == "Chest <i>pain</i>"
    for _ in range(2):
        click(page, "#next-form button[type=button]")
        page.run("new Promise(done => setTimeout(done, 100))")
    wait(page, f"document.querySelector('#recommendation strong').textContent === {json.dumps(EVIL)}")
    assert page.run("window.hacked === undefined")
    assert page.run("document.querySelectorAll('img, b, i, main script').length") == 0
    assert page.complaints() == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1280])
def test_it_fits_and_asks_nobody_else(browser: Browser, client: Client, width: int, dark: bool) -> None:
    browser.open(client.url, width=width, dark=dark)
    wait(browser, "document.querySelector('#recommendation strong') !== null")
    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert all(url.startswith((client.url, "data:")) for url in browser.requests())
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(21, 23, 26)" if dark else "rgb(244, 243, 240)")


def test_everything_has_a_name_and_nothing_a_handler(page: Browser) -> None:
    unnamed = (
        "[...document.querySelectorAll('input, select, button, svg[role=img]')].filter(each => "
        "!(each.ariaLabel || each.textContent.trim() || each.labels?.length)).length"
    )
    assert page.run(unnamed) == 0
    assert page.run("document.querySelectorAll('[onclick], [onload], [onerror], [style]').length") == 0
    assert page.run("document.getElementById('recommendation').ariaLive") == "polite"
    ids = page.run("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))


def test_paper_has_the_case_and_no_buttons(page: Browser) -> None:
    page.call("Emulation.setEmulatedMedia", media="print")
    shown = "[...document.querySelectorAll('button, input, select')].filter(each => each.checkVisibility())"
    assert page.run(f"{shown}.length") == 0
    assert page.run("document.getElementById('path').checkVisibility()")
    assert page.run("document.getElementById('cautions').checkVisibility()")
    page.call("Emulation.setEmulatedMedia", media="")
