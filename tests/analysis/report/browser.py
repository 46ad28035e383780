"""A real browser for tests: the system's Chromium, driven by Playwright."""

import shutil
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from playwright.sync_api import Page, sync_playwright


class Browser:
    """A headless browser with one page, which remembers every complaint of the page."""

    page: Page

    def __init__(self) -> None:
        self._pages: dict[bool, Page] = {}  # for desktops and, at small widths, for telephones
        self._complaints: list[str] = []
        self._requests: list[str] = []

    def __enter__(self) -> Self:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        with ExitStack() as stack:
            driver = stack.enter_context(sync_playwright())
            self._chromium = stack.enter_context(driver.chromium.launch(executable_path=path))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        """Load a page at a size and wait until it is there."""
        mobile = width < 600
        if mobile not in self._pages:
            self._pages[mobile] = self._new_page(mobile)
        self.page = self._pages[mobile]
        self._complaints.clear()
        self._requests.clear()
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(media="screen", color_scheme="dark" if dark else "light")
        self.page.goto(url)
        return self.page

    def _new_page(self, mobile: bool) -> Page:
        page = self._chromium.new_page(is_mobile=mobile)
        page.on("console", lambda message: self._complaints.append(message.text))
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("request", lambda request: self._requests.append(request.url))
        return page

    def run(self, expression: str) -> Any:
        """Evaluate a JavaScript expression; promises are awaited."""
        return self.page.evaluate(expression)

    def complaints(self) -> list[str]:
        """What the page wrote to the console or threw, including breaches of its security policy."""
        self.page.wait_for_timeout(50)
        return self._complaints

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        return self._requests
