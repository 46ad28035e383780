"""The cells of a study as JSON, small enough to travel inside the page."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from ascertain.analysis._results import IDENTITY, SCORES

_FILTERS = (*IDENTITY, "budget")  # columns to filter by
_MEASURED = (
    *("score", "mean_cost", "mean_acquisitions", *SCORES),
    *("forced_stop_rate", "n_rows", "restoration_rmse", "restoration_score"),
)
_OTHER = ("picked", "metric", "shortened", "device", "cell")  # repeated texts that are not filtered by
_OF_ESTIMATES = ("estimator", "score_low", "score_high")  # where rows have holes of their own
_OPTIONAL = ("restorer", "protocol", "picked", "shortened", "device")  # left out where every row has the same
_LABELS = {
    "f1": "Macro-F1",
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "brier": "Brier",
    "ece": "ECE",
    "n_rows": "Rows scored",
    "restoration_rmse": "Restoration RMSE",
    "restoration_score": "Restoration energy score",
}
_DIGITS = 5  # of a score; a thousandth is already less than the noise between splits


def cells_json(results: pd.DataFrame) -> Markup:
    """JSON for the page's table of cells, safe inside a `<script>` element."""
    text = json.dumps(cells_data(results), separators=(",", ":"), allow_nan=False)
    return Markup(escape_json(text))


def escape_json(text: str) -> str:
    r"""Write what could end a `<script>` element, or a line of one, as JSON's own escapes.

    Examples
    --------
    >>> escape_json('"</script>"')
    '"\\u003c/script\\u003e"'
    """
    for character in "<>&'\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def cells_data(results: pd.DataFrame) -> dict[str, Any]:
    """Lay the rows out by column, with repeated values as indices into a list.

    `rows` is their number; `largest` a text with a 1 for each row at its cell's largest budget; each of the
    `columns` has `name`, `label`, `filter`, and either `values` and `codes` (-1 where there is no value) or
    `numbers` (null likewise).
    """
    columns: list[dict[str, Any]] = []
    for name in (*_FILTERS, *_MEASURED, *_OTHER, *_OF_ESTIMATES):
        if name in _OF_ESTIMATES and name not in results:
            continue
        column = results[name]
        head = {"name": name, "label": _LABELS.get(name, name.replace("_", " ").capitalize())}
        if name in _OPTIONAL and column.nunique(dropna=False) <= 1:
            continue
        if name in (*_MEASURED, "score_low", "score_high"):
            if column.notna().any():
                columns.append({**head, "filter": False, "numbers": _rounded(column)})
        else:
            values, codes = _coded(column)
            columns.append({**head, "filter": name in _FILTERS, "values": values, "codes": codes})
    top = results.groupby("cell", dropna=False)["budget"].transform("max")
    largest = "".join(np.where(results["budget"] == top, "1", "0"))
    return {"rows": len(results), "largest": largest, "columns": columns}


def _rounded(column: "pd.Series[Any]") -> list[float | None]:
    numbers = np.round(column.to_numpy(np.float64, na_value=np.nan), _DIGITS)
    known = np.isfinite(numbers)
    whole = bool((numbers[known] % 1 == 0).all())  # written without a decimal point
    return [
        (int(number) if whole else number) if finite else None
        for number, finite in zip(numbers.tolist(), known, strict=True)
    ]


def _coded(column: "pd.Series[Any]") -> tuple[Sequence[Any], list[int]]:
    """Distinct values in order and, for every row, the index of its value."""
    codes, distinct = pd.factorize(column, sort=True)
    if pd.api.types.is_bool_dtype(column):
        values: list[Any] = ["yes" if value else "no" for value in distinct]
    elif pd.api.types.is_numeric_dtype(column):
        values = [int(value) if value % 1 == 0 else float(value) for value in distinct]
    else:
        values = [str(value) for value in distinct]
    return values, codes.tolist()
