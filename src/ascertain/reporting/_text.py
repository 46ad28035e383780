"""Counts, lists, durations and file hashes as pages print them."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from ascertain.reporting._tables import number_text


def joined(words: Sequence[str]) -> str:
    """List words as a sentence does.

    Examples
    --------
    >>> joined(["age", "sex", "bmi"])
    'age, sex and bmi'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Put a number before a noun.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number_text(number, 0)} {noun if number == 1 else plural or f'{noun}s'}"


def duration(seconds: float) -> str:
    """Write seconds in the unit that people would use.

    Examples
    --------
    >>> duration(0.031), duration(4.2), duration(600), duration(9000)
    ('0.03 s', '4.2 s', '10.0 min', '2.5 h')
    """
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
