"""The errors that Ascertain raises on purpose: what was found, where, and what to do about it."""


class AscertainError(Exception):
    """Base of every error that Ascertain raises on purpose."""


class InputError(AscertainError, ValueError):
    """A value that the caller passed cannot be used; the message names it and the fix."""


class TooLargeError(InputError):
    """A problem is too large for what was asked of it."""


class StoreError(AscertainError):
    """Files on disk cannot be used as they are."""
