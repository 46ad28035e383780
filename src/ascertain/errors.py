"""The errors that Ascertain raises on purpose: what was found, where, and what to do about it."""

import difflib
from collections.abc import Iterable

_MOST_LISTED = 20  # names in a message


class AscertainError(Exception):
    """Base of every error that Ascertain raises on purpose.

    Examples
    --------
    >>> from ascertain import AscertainError, load
    >>> try:
    ...     load("cubes")
    ... except AscertainError as error:
    ...     print(error)
    no dataset is called 'cubes'; did you mean 'cube'?
    """


class InputError(AscertainError, ValueError):
    """A value that the caller passed cannot be used; the message names it and the fix.

    Examples
    --------
    >>> from ascertain import Problem
    >>> try:
    ...     Problem([[True]], costs=[-1], budget=1, n_classes=2)
    ... except ValueError as error:
    ...     print(error)
    the cost of action 0 is -1.0; costs are finite and not negative
    """


class TooLargeError(InputError):
    """A problem is too large for what was asked of it.

    Examples
    --------
    >>> from ascertain.exact import shortcut
    >>> try:
    ...     shortcut(d=40, budget=20)
    ... except TooLargeError as error:
    ...     print("too large")
    too large
    """


class StoreError(AscertainError):
    """Files on disk cannot be used as they are.

    Examples
    --------
    >>> from ascertain import load_model
    >>> load_model("nowhere")
    Traceback (most recent call last):
    ...
    ascertain.errors.StoreError: ...
    """


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
