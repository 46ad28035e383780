"""Markdown: texts of people's tables are shown as they are, whatever they look like."""

import re

import pytest

from ascertain.reporting._markdown import markdown_list, markdown_table, markdown_text
from ascertain.reporting._tables import Cell, HtmlTable

NASTY = (
    "<script>alert(1)</script>",
    "[click](http://evil.example)",
    "![x](http://evil.example/x.png)",
    "a | b",
    "# heading",
    "`code`",
    "1. first",
    "- item",
    "> quote",
    "*bold* _too_ ~~gone~~",
    "&lt;b&gt;",
    "see https://evil.example and www.evil.example",
    "C:\\temp",
)


def shown(markdown: str) -> str:
    """What a reader of Markdown shows of an inline text: escapes and entities undone."""
    assert not re.search(r"(?<!\\)[\[\]|`*_~#]", re.sub(r"\\\\", "", markdown))
    text = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", markdown)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


@pytest.mark.parametrize("text", NASTY)
def test_a_text_is_shown_as_it_is(text: str) -> None:
    assert shown(markdown_text(text)) == text


@pytest.mark.parametrize("text", NASTY)
def test_nothing_in_a_text_is_markup(text: str) -> None:
    found = markdown_text(text)
    assert "<" not in found
    assert "://" not in found
    assert "www." not in found
    assert not re.match(r"[-+>=#]|\d+[.)]\s", found)


def test_a_text_is_one_line_without_control_characters() -> None:
    assert markdown_text("a\n# b\r\x1b[31mc\u202ed\x00") == "a \\# b \\[31mc d"


def test_numbers_stay_readable() -> None:
    assert markdown_text("0.95 (0.86 to 0.98), 30.8%") == "0.95 (0.86 to 0.98), 30.8%"


def test_a_table_keeps_its_columns_whatever_is_in_a_cell() -> None:
    head = [Cell("a|b"), Cell("n", number=True)]
    lines = markdown_table(HtmlTable(head, [[Cell(text), Cell("1", number=True)] for text in NASTY]))
    for line in lines.splitlines():
        assert len(re.findall(r"(?<!\\)\|", line)) == 3
    assert lines.splitlines()[1] == "| --- | ---: |"
    assert len(markdown_list(NASTY).splitlines()) == len(NASTY)
