"""What to measure next for every row of a table, as a table."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ascertain.errors import InputError, did_you_mean
from ascertain.estimator._case_prices import case_notes, check_case_costs
from ascertain.estimator._classifier import AcquisitionClassifier
from ascertain.practice._new_rows import FIRST_ROW, NewRows, match_columns

ROWS_AT_ONCE = 4096  # between two reports of progress
_ROUNDED = ("score", "probability", "low", "high", "right_at_end", "right_after")
_STOP = {
    "policy": "the policy stops",
    "budget": "the budget is spent",
    "nothing left": "nothing is left",
    "no set helps": "no set of tests is expected to tell much",
}


@dataclass(frozen=True, eq=False)
class Recommended:
    """A table of recommendations, and what to say about it."""

    table: pd.DataFrame  # a row for each row
    notes: tuple[str, ...]
    budget: float
    chosen: tuple[str, ...] = ("action",)  # the columns of actions

    def summary(self) -> dict[str, Any]:
        """Counts and means, as plain data."""
        table = self.table
        return {
            "rows": len(table),
            "budget": self.budget,
            "next": _counts(pd.concat([table[name] for name in self.chosen]).dropna()),
            "stops": _counts(table["why"].dropna()),
            "mean_cost": float(table["cost"].mean()),
            "predictions": _counts(table["prediction"]),
            "outside": int((table["outside"] != "").sum()),
            "notes": list(self.notes),
        }


def recommend_rows(
    model: AcquisitionClassifier,
    table: pd.DataFrame,
    *,
    ids: Sequence[str] = (),
    budget: float | None = None,
    spent: str | None = None,
    batch: int | None = None,
    costs: Mapping[str, Any] | None = None,
    forbid: Sequence[str] = (),
    on_rows: Callable[[int], object] = lambda done: None,
) -> Recommended:
    """Recommend what to measure next for every row.

    Parameters
    ----------
    model
        A fitted classifier.
    table
        The rows; columns are matched by name.
    ids
        Columns to keep, such as a patient's number. Without any, rows are counted as in a spreadsheet, whose
        first row has the names: from 2.
    budget
        What may be spent on a row; by default what the model was fitted for.
    spent
        What was spent already: a number for all rows, or a column. By default the price of all that a row
        has.
    batch
        How many actions to order at once; see `AcquisitionClassifier.recommend`.
    costs, forbid
        Prices where they are not those of training, and what is out of the question; see there.
    on_rows
        Called with the number of rows that are done, from time to time.
    """
    for name in ids:
        _check_column(table, name, "--id")
    amounts, purse = _amounts(table, spent)
    advisor = model.advisor_
    usual = float(str(np.asarray(advisor.problem.budget)))  # 0.3, not the nearest 0.30000001
    target = () if advisor.target is None else (advisor.target,)
    rows = match_columns(advisor.encoding, table, used={*ids, *purse, *target})
    prices = check_case_costs(advisor.encoding, costs)
    notes = (*rows.notes, *case_notes(advisor, prices, budget or 0.0))
    case = {"batch": batch, "costs": prices, "forbid": forbid, "budget": budget}
    found = pd.concat(_in_turns(model, rows, amounts, case, on_rows)).drop(columns="note", errors="ignore")
    chosen = ("action",) if batch is None else tuple(f"action_{place}" for place in range(1, batch + 1))
    if batch is not None:
        sets = found.pop("actions").map(lambda names: (*names, *[None] * (batch - len(names))))
        found = pd.concat([pd.DataFrame(sets.tolist(), found.index, chosen, object), found], axis=1)
    kept = table[list(ids)] if ids else pd.DataFrame({"row": np.arange(len(table)) + FIRST_ROW}, table.index)
    clash = set(kept.columns) & {*found.columns, "outside"}
    kept = kept.rename(columns={name: f"{name} (given)" for name in clash})
    if spent is None and (found["why"] == "budget").any():
        notes = (
            *notes,
            "All that a row has counts as paid for; --spent 0 (or a column of what was paid) changes that.",
        )
    whole = pd.concat([kept, found.assign(outside=rows.outside)], axis=1)
    return Recommended(whole, notes, usual if budget is None else budget, chosen)


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """The table with probabilities and scores in six digits, which are more than can be relied on."""
    shown = [name for name in _ROUNDED if name in table]
    return table.assign(**{name: table[name].map(lambda number: float(f"{number:.6g}")) for name in shown})


def stop_text(why: str) -> str:
    """Why it is to stop, in words."""
    return _STOP[why]


def _in_turns(
    model: AcquisitionClassifier,
    rows: NewRows,
    spent: np.ndarray | None,
    case: Mapping[str, Any],
    on_rows: Callable[[int], object],
) -> list[pd.DataFrame]:
    """Recommend for some thousand rows at a time; the last turn has no fewer, so it needs no new program."""
    n_rows = len(rows.columns)
    starts = list(range(0, max(n_rows - ROWS_AT_ONCE, 0) + 1, ROWS_AT_ONCE))
    found = []
    for start, end in zip(starts, [*starts[1:], n_rows], strict=True):
        own = None if spent is None else spent[start:end]
        with warnings.catch_warnings():  # notes say the same
            warnings.simplefilter("ignore", UserWarning)
            found.append(model.recommend(rows.columns.iloc[start:end], spent=own, **case))
        on_rows(end)
    return found


def _amounts(table: pd.DataFrame, spent: str | None) -> tuple[np.ndarray | None, set[str]]:
    """What was spent on each row, and the column that says so."""
    if spent is None:
        return None, set()
    if spent in table:
        amounts = pd.to_numeric(table[spent], errors="coerce").to_numpy(np.float64)
        for row in np.flatnonzero(~(np.isfinite(amounts) & (amounts >= 0)))[:1]:
            raise InputError(
                f"the column {spent!r} holds {table[spent].iloc[row]!r} in row {row + FIRST_ROW}, which is "
                "no amount that was spent"
            )
        return amounts, {spent}
    try:
        return np.full(len(table), float(spent)), set()
    except ValueError as error:
        raise InputError(
            f"--spent must be a number or a column, got {spent!r}; {did_you_mean(spent, table.columns)}"
        ) from error


def _check_column(table: pd.DataFrame, name: str, option: str) -> None:
    if name not in table:
        raise InputError(f"{option}: there is no column {name!r}; {did_you_mean(name, table.columns)}")


def _counts(values: "pd.Series[Any]") -> dict[str, int]:
    return {str(value): int(count) for value, count in values.value_counts().items()}
