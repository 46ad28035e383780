"""The JSON endpoints: what the model is, what it advises, and whether the server is up."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ascertain._core.json import plain_json
from ascertain._core.version import __version__
from ascertain.errors import InputError
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._consultation import Consultation
from ascertain.serve._about import About
from ascertain.serve._limits import Limits, read_body
from ascertain.serve._openapi import document
from ascertain.serve._replies import answer_case, describe


class JSON(Response):
    """Plain data, in ASCII: strings in JSON may hold what UTF-8 cannot."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Encode the data."""
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


class Api:
    """Answers the requests under `/api/` and keeps nothing of them."""

    def __init__(self, advisor: Advisor, about: About, limits: Limits) -> None:
        model = describe(advisor, about)
        self.constant = {  # by address
            "/api/health": {"status": "ok", "version": __version__},
            "/api/model": model.model_dump(),
            "/api/openapi.json": document(model, limits),
        }
        self.advisor = advisor
        self.limits = limits
        self.pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="advice")
        self._free = limits.workers + limits.waiting
        self._advise(b"{}")  # compiles what every request needs

    async def advice(self, request: Request) -> Response:
        """Advise on a case; computed in a thread, so that other requests are answered meanwhile."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
        if kind != "application/json":
            raise HTTPException(415, "the case must be sent as application/json")
        body = await read_body(request, self.limits)
        if self._free <= 0:
            message = "too many cases are being computed; try again"
            raise HTTPException(503, message, headers={"Retry-After": "1"})
        self._free -= 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self.pool, self._advise, body)
        finally:
            self._free += 1

    def _advise(self, body: bytes) -> Response:
        try:
            case = plain_json(body)
        except (ValueError, RecursionError) as error:
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
            raise HTTPException(400, f"the request is not valid JSON: {reason}") from error
        if not isinstance(case, dict):
            raise HTTPException(422, "a case must be a JSON object with the keys budget and entries")
        try:
            consultation = Consultation.from_json(self.advisor, case)
        except InputError as error:
            raise HTTPException(422, str(error)) from error
        return JSON(answer_case(consultation).model_dump())
