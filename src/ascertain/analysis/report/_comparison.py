"""The comparison with the paper as sentences and a table."""

from typing import Any, NamedTuple

import pandas as pd

from ascertain.analysis._results import Results
from ascertain.analysis.paper._comparison import compare_with_paper
from ascertain.reporting._tables import NOTHING, Cell, HtmlTable, as_cell, number_text
from ascertain.reporting._text import counted

_FIRST_NAMED = 12  # beyond this a sentence is no longer read

# A sign and a word, so that the colour adds nothing that a reader needs.
_VERDICTS = {
    "agrees": Cell("✓ agrees", tone="tone-good"),
    "differs": Cell("✗ differs", tone="tone-bad"),
    "not comparable": Cell("○ not comparable", tone="tone-near"),
}
_HEADERS = ("What", "Where", "Verdict", "Ours", "The paper's", "Difference", "In standard errors", "Note")


class Comparison(NamedTuple):
    """Summary of the agreement, and the table behind it, if there is anything to compare."""

    sentences: list[str]
    table: HtmlTable | None


def compare(results: Results) -> Comparison:
    """Compare a study with everything that the paper publishes about the same quantities."""
    return present(compare_with_paper(results))


def present(found: pd.DataFrame) -> Comparison:
    """Put the table of `compare_with_paper` into sentences and HTML."""
    if found.empty:
        return Comparison(["The paper publishes nothing about what this study holds."], None)
    headers = [Cell(name, number=place in range(3, 7)) for place, name in enumerate(_HEADERS)]
    return Comparison(_summary(found), HtmlTable(headers, [_row(row) for _, row in found.iterrows()]))


def _summary(found: pd.DataFrame) -> list[str]:
    counts = found["verdict"].value_counts()
    agree, differ, apart = (int(counts.get(name, 0)) for name in _VERDICTS)
    said = [
        f"Of {counted(len(found), 'published number or statement', 'published numbers and statements')}, "
        f"{agree} agree, {differ} differ and {apart} cannot be compared. Numbers agree if they are at most "
        "two standard errors of the difference apart; the notes say why some cannot be compared."
    ]
    far = [f"{row['what']}, {row['where']}" for _, row in found[found["verdict"] == "differs"].iterrows()]
    if far:
        rest = [f"{len(far) - _FIRST_NAMED} more"] if len(far) > _FIRST_NAMED else []
        said.append(f"Those that differ: {'; '.join([*far[:_FIRST_NAMED], *rest])}.")
    return said


def _row(row: "pd.Series[Any]") -> list[Cell]:
    return [
        Cell(str(row["what"]), tone="words"),
        Cell(str(row["where"]), tone="words"),
        _VERDICTS.get(str(row["verdict"]), Cell(str(row["verdict"]))),
        _with_error(row["ours"], row["ours_se"]),
        _with_error(row["paper"], row["paper_se"]),
        _signed(row["difference"], 3),
        _signed(row["standard_errors"], 1),
        Cell(str(row["note"]), tone="note"),
    ]


def _with_error(mean: float, error: float) -> Cell:
    text = as_cell(float(mean)).text
    return Cell(text if pd.isna(error) else f"{text} ± {number_text(error)}", number=True)


def _signed(value: float, digits: int) -> Cell:
    return Cell(NOTHING if pd.isna(value) else number_text(value, digits, sign=True), number=True)
