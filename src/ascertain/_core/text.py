"""Text from people's tables, made safe to show."""

import re

# What moves a cursor, colours a terminal, turns the direction of writing, or is not seen; not line breaks and
# tabs. `serve/charts.js` has the same.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    "\ufe0f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SYMBOL = re.compile("[\xa9\xae\u203c-\u3299\U0001f000-\U0001faff]")  # with emoji
_JOINED = re.compile(
    f"{_SYMBOL.pattern}|[\u0600-\u0dff\u1000-\u109f\u1780-\u18af]"
)  # with Arabic, Hindi, ...
_COLOURED, _KEY = "\ufe0f", "\u20e3"  # marks behind a symbol: shown in colours, as a key
_BREAKS = str.maketrans({"\t": r"\t", "\n": r"\n", "\r": r"\r"})


def visible(text: str) -> str:
    r"""Write control and invisible characters as escapes, so that they are seen and do nothing.

    All that is printed, and every page, goes through here once.

    Examples
    --------
    >>> print(visible("age\x1b[31m"))
    age\x1b[31m
    """
    return _UNSEEN.sub(lambda found: found[0] if _is_needed(found) else _escape(ord(found[0])), text)


def visible_line(text: str) -> str:
    r"""Do as `visible` does, and write line breaks and tabs as escapes, too, so that a text is one line.

    Examples
    --------
    >>> print(visible_line("age\nWarning: forged"))
    age\nWarning: forged
    """
    return visible(text.translate(_BREAKS))


def _is_needed(found: re.Match[str]) -> bool:
    """Whether a joiner, or the mark for an emoji's colours, is between characters that need it."""
    text, start, end = found.string, found.start(), found.end()
    before, after = text[max(start - 1, 0) : start], text[end : end + 1]
    if found[0] == _COLOURED:
        return bool(_SYMBOL.match(before)) or after == _KEY
    joins = found[0] in ("\u200c", "\u200d")
    return joins and bool(_JOINED.match(before) or before == _COLOURED) and bool(_JOINED.match(after))


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
