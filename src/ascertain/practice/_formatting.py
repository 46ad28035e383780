"""Numbers, lists of names and tables as pages and terminal show them."""

from collections.abc import Sequence

from ascertain.reporting._tables import Cell, HtmlTable, number_text


def p_text(p_value: float) -> str:
    """Write a p-value, not more exactly than it is known.

    Examples
    --------
    >>> p_text(1e-30), p_text(0.034)
    ('p < 0.001', 'p = 0.034')
    """
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"


def names_text(names: Sequence[str], most: int = 6) -> str:
    """List names, the first ones only where there are many.

    Examples
    --------
    >>> names_text(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def percent_text(share: float) -> str:
    """Write a share as a percentage, with a decimal where it is small."""
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.1%}"


def expected_text(count: float) -> str:
    """Write an expected number of rows: whole from 10 on, else two digits."""
    return f"{count:,.0f}" if count >= 10 else f"{count:.2g}"


def html_table(headers: Sequence[str], rows: list[list[Cell]]) -> HtmlTable | None:
    """Put headers above rows, aligned as the cells below them; None without rows."""
    numbers = [any(cell.number for cell in column) for column in zip(*rows, strict=True)]
    cells = [Cell(text, number=number) for text, number in zip(headers, numbers, strict=False)]
    return HtmlTable(cells, rows) if rows else None


def number_cell(text: str, tone: str = "") -> Cell:
    """Show a text as a number, on the right."""
    return Cell(text, number=True, tone=tone)


def count_cell(count: int) -> Cell:
    """Show a whole number."""
    return number_cell(number_text(count, 0))


def share_cell(share: float) -> Cell:
    """Show a percentage with one decimal."""
    return number_cell(f"{share:.1%}")
