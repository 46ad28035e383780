"""The web application: the page, the API, and the guard in front of both."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ascertain.estimator._advisor import Advisor
from ascertain.serve._about import About
from ascertain.serve._api import JSON, Api
from ascertain.serve._limits import Limits, Rates

PAGES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/charts.js": ("charts.js", "text/javascript"),
}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def create_app(advisor: Advisor, about: About, *, limits: Limits | None = None) -> ASGIApp:
    """Make the application and compile its programs.

    Parameters
    ----------
    advisor
        What was fitted.
    about
        What to tell people about it.
    limits
        What to accept; by default requests from this machine only.

    Examples
    --------
    `examples/own_page.py` serves a model from a program of one's own.
    """
    limits = Limits() if limits is None else limits
    api = Api(advisor, about, limits)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        yield
        api.pool.shutdown(cancel_futures=True)

    pages = {
        path: Response(files("ascertain.serve").joinpath(name).read_bytes(), media_type=kind)
        for path, (name, kind) in PAGES.items()
    }
    constant = pages | {path: JSON(content) for path, content in api.constant.items()}
    routes = [Route(path, response, methods=["GET"]) for path, response in constant.items()]
    routes.append(Route("/api/advice", api.advice, methods=["POST"]))
    handlers = {HTTPException: _refusal, Exception: _failure}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False
    return Guard(app, limits)


class Guard:
    """Refuses foreign hosts and frequent clients, and sets the headers of every response.

    Nothing of a request is logged: of an unexpected error, only its type.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self._rates = Rates(limits.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app = self._refused(scope) or self.app
        try:
            await app(scope, receive, guarded)
        except Exception as error:  # `_failure` has answered already
            print(f"ascertain serve: {type(error).__name__} in a request", file=sys.stderr)

    def _refused(self, scope: Scope) -> Response | None:
        """The response to a request that is not let in; None lets it in."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            return JSON({"error": "a request must name one Host"}, 400)
        if not self.limits.answers_to(hosts[0]):
            message = "this server does not answer to that name; start it with --allow-host NAME to add one"
            return JSON({"error": message}, 421)
        if self._is_foreign(scope, headers, hosts[0]):
            message = "a page of another server sent this request; only this server's own page may"
            return JSON({"error": message}, 403)
        wait = self._rates.wait(scope["client"][0] if scope.get("client") else "")
        if wait > 0:
            message = f"too many requests; {self.limits.rate:g} per second are answered"
            return JSON({"error": message}, 429, {"Retry-After": str(int(wait) + 1)})
        return None

    def _is_foreign(self, scope: Scope, headers: Headers, host: str) -> bool:
        """Whether a page elsewhere sends a request; people may still follow a link to here."""
        if any(not self.limits.trusts(origin, host) for origin in headers.getlist("origin")):
            return True
        other = headers.get("sec-fetch-site", "none") in ("cross-site", "same-site")
        follows = scope["method"] in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
        return other and not follows


async def _refusal(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    messages = {404: "there is nothing at this address", 405: "this address does not take that method"}
    message = messages.get(error.status_code, error.detail)
    return JSON({"error": message}, error.status_code, error.headers)


async def _failure(request: Request, error: Exception) -> Response:
    del request, error
    return JSON({"error": "something went wrong here; the request was not at fault"}, 500)
