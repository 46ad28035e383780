"""TOML that programs can compute with: nested as people nest it, and with numbers that are not astronomic."""

import sys
import tomllib
from typing import Any

_DEEPEST = 32  # tables and lists within each other


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML; raises a `ValueError` where it is none, too deep, or has too large a whole number.

    Examples
    --------
    >>> parse_toml("gdfs.epochs = 10")
    {'gdfs': {'epochs': 10}}
    """
    try:
        content = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(f"it is nested deeper than {_DEEPEST} tables or lists") from error
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # Python reads only so many digits
        raise ValueError("it has a number that is too large, or no date") from error
    _check(content)
    return content


def _check(content: dict[str, Any]) -> None:
    """Raise for what other code would fail at: without recursion, as dotted keys nest without limit."""
    waiting: list[tuple[str, int, Any]] = [(name, 1, each) for name, each in content.items()]
    while waiting:
        place, depth, value = waiting.pop()
        if depth > _DEEPEST:
            raise ValueError(f"{place[:40]}... is nested deeper than {_DEEPEST} tables or lists")
        if isinstance(value, dict):
            waiting += [(f"{place}.{name}", depth + 1, each) for name, each in value.items()]
        elif isinstance(value, list):
            waiting += [(place, depth + 1, each) for each in value]
        elif isinstance(value, int) and abs(value) > sys.float_info.max:
            raise ValueError(f"{place} has a number that is too large")
