"""Numbers and lists of names as pages and terminal show them."""

from collections.abc import Sequence


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
