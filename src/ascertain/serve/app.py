"""The web application: a page, its script and style, the API, and what guards them."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ascertain.estimator.advisor import Advisor
from ascertain.serve.about import About
from ascertain.serve.api import JSON, Api
from ascertain.serve.limits import Limits, Rates
from ascertain.serve.openapi import document

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
    """Make the application; its programs are compiled before it is given.

    Parameters
    ----------
    advisor
        What was fitted.
    about
        What to tell about it.
    limits
        How much to take on; by default from this machine only.
    """
    limits = Limits() if limits is None else limits
    api = Api(advisor, about, limits)
    api.warm_up()
    described = document(api.description, limits)

    async def openapi(request: Request) -> Response:
        del request
        return JSON(described)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        yield
        api.pool.shutdown(cancel_futures=True)

    routes = [
        *(Route(path, _file(name, kind), methods=["GET"]) for path, (name, kind) in PAGES.items()),
        Route("/api/health", api.health, methods=["GET"]),
        Route("/api/model", api.model, methods=["GET"]),
        Route("/api/advice", api.advice, methods=["POST"]),
        Route("/api/openapi.json", openapi, methods=["GET"]),
    ]
    handlers = {HTTPException: _refusal, Exception: _failure}
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False
    return Guard(app, limits)


class Guard:
    """Refuses requests of others than those meant, and sets the headers of every answer.

    Nothing of a request is logged: of an error that nobody thought of, only its type is.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app = app
        self.limits = limits
        self._rates = Rates(limits.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
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
        """Give the answer to a request that is not let in."""
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) != 1:
            return JSON({"error": "a request must name one Host"}, 400)
        if not self.limits.answers_to(hosts[0]):
            message = "this server does not answer to that name; start it with --allow-host NAME to add one"
            return JSON({"error": message}, 421)
        wait = self._rates.wait(scope["client"][0] if scope.get("client") else "")
        if wait > 0:
            message = f"too many requests; {self.limits.rate:g} per second are answered"
            return JSON({"error": message}, 429, {"Retry-After": str(int(wait) + 1)})
        return None


async def _refusal(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    words = {404: "there is nothing at this address", 405: "this address does not take that method"}
    message = words.get(error.status_code, error.detail)
    return JSON({"error": message}, error.status_code, error.headers)


async def _failure(request: Request, error: Exception) -> Response:
    del request, error
    return JSON({"error": "something went wrong here; the request was not at fault"}, 500)


def _file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = files("ascertain.serve").joinpath(name).read_bytes()

    async def give(request: Request) -> Response:
        del request
        return Response(content, media_type=kind)

    return give
