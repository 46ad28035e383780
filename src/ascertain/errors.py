"""The errors that Ascertain raises on purpose: what was found, where, and what to do about it."""

import difflib
from collections.abc import Iterable

_MOST_LISTED = 20  # names in a message


class AscertainError(Exception):
    """Base of every error that Ascertain raises on purpose."""


class InputError(AscertainError, ValueError):
    """A value that the caller passed cannot be used; the message names it and the fix."""


class TooLargeError(InputError):
    """A problem is too large for what was asked of it."""


class StoreError(AscertainError):
    """Files on disk cannot be used as they are."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar known one, or else which there are.

    Capitals are ignored.

    Examples
    --------
    >>> did_you_mean("Gdsf", ["gdfs", "jafa"])
    "did you mean 'gdfs'?"
    >>> did_you_mean("ppo", ["gdfs", "jafa"])
    "there are 'gdfs', 'jafa'"
    """
    names = list(known)
    folded = {each.casefold(): each for each in names}
    for similar in difflib.get_close_matches(name.casefold(), folded, n=1):
        return f"did you mean {folded[similar]!r}?"
    more = ", ..." if len(names) > _MOST_LISTED else ""
    return "there are " + ", ".join(map(repr, names[:_MOST_LISTED])) + more
