"""Strict JSON: files and requests are refused unless they hold exactly what was written or asked for."""

import hashlib
import json
import math
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError


class Strict(BaseModel):
    """Refuses unknown keys and values of another type; dataclasses within are held to it, too."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def canonical(content: Any) -> str:
    """Write JSON in the one way that digests are taken of."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(content: Any) -> str:
    """The sha256 of JSON, however it is laid out."""
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def first_finding(error: Exception) -> str:
    """What is wrong, in one line; pydantic would take many."""
    if not isinstance(error, ValidationError):
        return str(error)
    found = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(map(str, found["loc"]))[:200]
    return f"{place}: {found['msg']}" if place else found["msg"]


def plain_json(content: bytes) -> Any:
    """Read JSON; repeated keys, NaN and infinity are a `ValueError`, too deep nesting a `RecursionError`."""
    return json.loads(
        content.decode(),
        object_pairs_hook=_without_duplicates,
        parse_constant=_refuse_constant,
        parse_float=_finite,
    )


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key occurs twice")
    return content


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number
