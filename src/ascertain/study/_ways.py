"""How results were computed: on what device, how wide, by which versions. A store mixes ways only if told to.

Another way rounds numbers otherwise, and training amplifies that.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax

from ascertain._core.version import __version__
from ascertain.errors import StoreError


class Way(NamedTuple):
    """One way to compute; the width is the one that was asked for, before memory narrowed it."""

    device: str
    width: int
    version: str
    jax: str

    def __str__(self) -> str:
        return f"on {self.device} at width {self.width} by ascertain {self.version} and jax {self.jax}"


def way_here(device: str, width: int) -> Way:
    """How this process computes."""
    return Way(device, width, __version__, jax.__version__)


def check_way(folder: Path, details: Mapping[str, Any], here: Way) -> None:
    """Raise where something in a store was computed in another way."""
    there = Way(details["device"], details["asked_width"], details["version"], details["jax"])
    if there != here:
        raise StoreError(
            f"{folder} has results computed {there}; this run would go on {here}, where numbers are rounded "
            f"otherwise. Go on in the same way (--width {there.width} on such a device), use another folder, "
            "or accept both with --mix"
        )
