"""Facts and tables in Markdown; texts that come from people's tables cannot become markup."""

import re
from collections.abc import Iterable

from ascertain.reporting._tables import Fact, HtmlTable

_MARKUP = re.compile(r"([\\`*_{}\[\]#|~$^])")
_BULLET = re.compile(r"^([-+=>]|\d+(?=[.)](\s|$)))")  # of a line, where it would begin a list or a heading
_LINK = re.compile(r"(?<=:)//|(?<=www)\.", re.IGNORECASE)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def markdown_text(text: str) -> str:
    r"""Escape a text, so that Markdown shows it as it is, in one line and without control characters.

    Examples
    --------
    >>> print(markdown_text("[b]mi | <b>2.5</b>"))
    \[b\]mi \| &lt;b&gt;2.5&lt;/b&gt;
    """
    line = "".join(each if each.isprintable() else " " for each in text)
    safe = _MARKUP.sub(r"\\\1", " ".join(line.split()).translate(_ENTITIES))
    safe = _LINK.sub(lambda found: found[0].replace("/", "\\/").replace(".", "\\."), safe)
    return _BULLET.sub(lambda found: f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}", safe)


def markdown_facts(facts: Iterable[Fact]) -> str:
    """A list of facts."""
    return "\n".join(f"- {markdown_text(fact.label)}: {markdown_text(fact.text)}" for fact in facts)


def markdown_list(sentences: Iterable[str]) -> str:
    """A list of sentences."""
    return "\n".join(f"- {markdown_text(sentence)}" for sentence in sentences)


def markdown_table(table: HtmlTable) -> str:
    """A table; numbers are on the right."""
    rule = ["---:" if cell.number else "---" for cell in table.headers]
    rows = [table.headers, *table.rows]
    first, *others = (_row(markdown_text(cell.text) for cell in row) for row in rows)
    return "\n".join([first, _row(rule), *others])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
