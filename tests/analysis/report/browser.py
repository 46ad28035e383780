"""A real browser for tests, driven over the pipe of its DevTools protocol: no library needed."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from select import select
from types import TracebackType
from typing import Any, Self

# The browser reads commands from file 3 and answers on file 4, which `subprocess` cannot set by itself.
_LAUNCH = """
import fcntl, os, sys
apart = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]  # in nobody's way
for number, wanted in zip(apart, (3, 4)):
    os.dup2(number, wanted)
os.execvp(sys.argv[3], sys.argv[3:])
"""
_PATIENCE = 20.0  # seconds


class Browser:
    """A headless browser with one page, which remembers every complaint of the page."""

    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._number = 0
        self._buffer = b""
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None

    def __enter__(self) -> Self:
        name = shutil.which("chromium") or shutil.which("google-chrome")
        assert name is not None
        for_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        options += ["--remote-debugging-pipe", f"--user-data-dir={self._profile}", "--no-first-run"]
        options += ["--disable-extensions", "--disable-background-networking", "--hide-scrollbars"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(for_browser), str(from_browser), name, *options],
            pass_fds=(for_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(for_browser)
        os.close(from_browser)
        try:
            self._attach()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(timeout=10)
        finally:
            self._end()

    def _attach(self) -> None:
        self.downloads = self._profile / "downloads"
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; what arrives before it is kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])
            self._events.append(answer)

    def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a page at a size and wait until it is there."""
        self._events.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._next())

    def run(self, expression: str) -> Any:
        """Give the value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """What the page wrote to the console or threw, including breaches of its security policy."""
        self.run("new Promise(done => setTimeout(done, 50))")
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        return [json.dumps(event["params"]) for event in self._events if event.get("method") in kinds]

    def requests(self) -> list[str]:
        """Everything that the page asked for."""
        sent = [event for event in self._events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def _next(self) -> dict[str, Any]:
        limit = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select([self._read], [], [], max(0.0, limit - time.monotonic()))
            block = os.read(self._read, 1 << 20) if ready else b""
            if not block:
                raise TimeoutError("the browser does not answer")
            self._buffer += block
        message, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(message))
