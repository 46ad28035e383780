"""The JSON endpoints: what the model is, what it advises, and whether it is there."""

import asyncio
import dataclasses
import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ascertain._core.version import __version__
from ascertain.errors import InputError
from ascertain.estimator.advisor import Advisor
from ascertain.estimator.consultation import Answer, Consultation
from ascertain.models.files import plain_json
from ascertain.serve.about import About
from ascertain.serve.limits import Limits, Places, read_body


class JSON(Response):
    """Plain data; in ASCII, as a text of JSON may hold what UTF-8 cannot."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Write the data."""
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


class Api:
    """Answers the requests under `/api/`; keeps nothing of them.

    Parameters
    ----------
    advisor
        What was fitted.
    about
        What to tell about it.
    limits
        How much to take on.
    """

    def __init__(self, advisor: Advisor, about: About, limits: Limits) -> None:
        self.advisor = advisor
        self.limits = limits
        self.description = describe(advisor, about)
        self.pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="advice")
        self._places = Places(limits)

    async def health(self, request: Request) -> Response:
        """Say that the server is there."""
        del request
        return JSON({"status": "ok", "version": __version__})

    async def model(self, request: Request) -> Response:
        """Describe the model."""
        del request
        return JSON(self.description)

    async def advice(self, request: Request) -> Response:
        """Advise on a case; computed in a thread, so that other requests are heard meanwhile."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
        if kind != "application/json":
            raise HTTPException(415, "the case must be sent as application/json")
        body = await read_body(request, self.limits)
        with self._places.taken():
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self.pool, self._advise, body)

    def warm_up(self) -> None:
        """Compile what every request needs."""
        self._advise(b"{}")

    def _advise(self, body: bytes) -> Response:
        try:
            case = plain_json(body)
        except (ValueError, RecursionError) as error:
            raise HTTPException(400, f"the request is not valid JSON: {_short(error)}") from error
        if not isinstance(case, dict):
            raise HTTPException(422, "a case must be a JSON object with the keys budget and entries")
        try:
            consultation = Consultation.from_json(self.advisor, case)
        except InputError as error:
            raise HTTPException(422, str(error)) from error
        return JSON(answered(consultation))


def answered(consultation: Consultation) -> dict[str, Any]:
    """Give the answer to a case as plain data, the case as it was understood, and how it came about."""
    answer = consultation.answer()
    return {
        **_plain(answer),
        "course": list(consultation.course()),
        "case": consultation.to_json(),
    }


def describe(advisor: Advisor, about: About) -> dict[str, Any]:
    """Describe a model as plain data."""
    encoding = advisor.encoding
    owner = {column: action.name for action in encoding.actions for column in action.columns}
    return {
        **dataclasses.asdict(about),
        "classes": [str(each) for each in advisor.classes],
        "budget": float(advisor.problem.budget),
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "categories": None if column.categories is None else list(column.categories),
                "low": column.low,
                "high": column.high,
                "known": column.name in encoding.known,
                "action": owner.get(column.name),
            }
            for column in encoding.columns
        ],
        "actions": [
            {"name": action.name, "columns": list(action.columns), "cost": action.price}
            for action in encoding.actions
        ],
    }


def _plain(answer: Answer) -> dict[str, Any]:
    options = [dataclasses.asdict(option) for option in answer.options]
    for option in options:
        # Some policies score what they never would do as minus infinity, which JSON has no word for.
        option["score"] = option["score"] if math.isfinite(option["score"]) else None
    return {
        **{field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)},
        "options": options,
        "left": answer.left,
    }


def _short(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
