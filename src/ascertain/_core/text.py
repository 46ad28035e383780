"""Text from people's tables, made safe to show."""

import re

# What moves a cursor, colours a terminal, or turns the direction of writing; not line breaks and tabs.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""Write control characters as escapes, so that they are seen and do nothing.

    All that is printed, and every page, goes through here once.

    Examples
    --------
    >>> print(visible("age\x1b[31m"))
    age\x1b[31m
    """
    return _CONTROLS.sub(lambda found: _escape(ord(found[0])), text)


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
