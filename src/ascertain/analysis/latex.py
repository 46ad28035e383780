"""Tables in LaTeX, with booktabs."""

import math
from collections.abc import Sequence

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\n": " ",
}


def escape(text: str) -> str:
    r"""Make text stand for itself in LaTeX.

    Examples
    --------
    >>> print(escape("50% of a_b"))
    50\% of a\_b
    """
    return "".join(_SPECIAL.get(character, character) for character in text)


def number(value: float, *, signed: bool = False, decimals: int = 3) -> str:
    """Write a number for LaTeX; a dash where there is none.

    Examples
    --------
    >>> number(0.0616, signed=True), number(float("nan"))
    ('$+0.062$', '--')
    """
    rounded = round(value, decimals) + 0.0  # no negative zero
    return "--" if math.isnan(value) else f"${rounded:{'+' if signed else ''}.{decimals}f}$"


def tabular(columns: str, header: Sequence[str], groups: Sequence[Sequence[Sequence[str]]]) -> str:
    """Give a tabular of cells that are LaTeX already, with a rule between groups of rows.

    Parameters
    ----------
    columns
        How columns are aligned, as `tabular` takes it.
    header
        The cells of the first row.
    groups
        The rows, in groups.
    """
    bodies = ["".join(f"{' & '.join(row)} \\\\\n" for row in rows) for rows in groups]
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{' & '.join(header)} \\\\\n\\midrule\n"
        + "\\midrule\n".join(bodies)
        + "\\bottomrule\n\\end{tabular}\n"
    )


def table(caption: str, label: str, body: str, size: str = "footnotesize") -> str:
    """Put a tabular into a floating table under its caption, which is LaTeX already."""
    return (
        f"\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n\\label{{{label}}}\n"
        f"{{\\{size}\n\\setlength{{\\tabcolsep}}{{3pt}}\n{body}}}\n\\end{{table}}\n"
    )
