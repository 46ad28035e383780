"""Text from people's tables, made safe to show."""

import pytest

from ascertain._core.text import visible, visible_line

ORDINARY = (
    "größe\t1\n",
    "cafe\N{COMBINING ACUTE ACCENT}",
    "\N{HEBREW LETTER ALEF}",
    "\u8840\u5727",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian: a joiner that parts two letters
    "\u0915\u094d\u200d\u0937",  # Devanagari
    "\U0001f469\u200d\U0001f52c",  # a woman who is a scientist
    "\u2764\ufe0f\u200d\U0001f525",  # a heart on fire
    "1\ufe0f\u20e3",  # a key of a telephone
    "1\xa0234\u202f5",  # spaces between thousands
)
UNSEEN = (
    ("a\x1bb\r\x7f\u2066\ud800", r"a\x1bb\x0d\x7f\u2066\ud800"),
    ("a\u200bge\u200e\u200f\u061c", r"a\u200bge\u200e\u200f\u061c"),
    ("\ufeffage\u2060\xad", r"\ufeffage\u2060\xad"),
    ("age\u2028\u2029", r"age\u2028\u2029"),
    ("age\U000e0061\U000e007f", r"age\U000e0061\U000e007f"),
    ("a\u200dge\u200c", r"a\u200dge\u200c"),
    ("\U0001f469\u200d", "\U0001f469\\u200d"),
    ("age\ufe0f", r"age\ufe0f"),
)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(("text", "shown"), UNSEEN)
def test_what_is_not_seen_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_name_stays_in_its_line() -> None:
    assert visible_line("age\r\nError:\tno\u200b") == r"age\r\nError:\tno\u200b"
