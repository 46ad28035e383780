"""A small table of patients, and models that take little time to fit to it."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from ascertain.practice.comparison._held_out import HeldOut, hold_out
from ascertain.practice.comparison._leaderboard import Candidate, Leaderboard, compare
from ascertain.tables._reading import UserTable

COSTS = {"ecg": 2.0, "blood": 3.0, "scan": 10.0, "[b]mi": 1.0, "pain": 1.0}
PANELS = {"blood": ["iron", "tibc"]}
KNOWN = ["age", "sex"]
BUDGET = 6.0
# Neither is trained, nor needs a restorer that is.
CANDIDATES = (Candidate("sequential", "s", "restricted"), Candidate("static", "s", "restricted"))


def patients(n_rows: int = 240, seed: int = 0) -> pd.DataFrame:
    """Make a table in which the blood panel tells most about the target.

    Only the scan has holes, and it costs more than the budget: to simulate how policies would continue in
    rows with holes takes long to compile, and has tests of its own.
    """
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=["[b]mi", "ecg", "iron", "scan"])
    table["tibc"] = rng.normal(size=n_rows)
    sick = table["iron"] + table["tibc"] + 0.3 * table["ecg"] + 0.4 * rng.normal(size=n_rows) > 0.5
    table["scan"] = table["scan"].mask(rng.random(n_rows) < 0.3)
    table["pain"] = np.where(rng.random(n_rows) < 0.5, "none", "strong")
    table["age"] = rng.integers(20, 90, n_rows)
    table["sex"] = np.where(rng.random(n_rows) < 0.5, "f", "m")
    return table.assign(sick=np.where(sick, "yes", "no"))


def write_patients(folder: Path) -> Path:
    """Write the table, its prices and its panels."""
    path = folder / "patients.csv"
    patients().to_csv(path, index=False, na_rep="?")
    prices = "".join(f"{name},{cost:g}\n" for name, cost in COSTS.items())
    (folder / "prices.csv").write_text(f"name,cost\n{prices}")
    (folder / "panels.csv").write_text("column,group\niron,blood\ntibc,blood\n")
    return path


def held_out(table: UserTable, test_fraction: float = 0.25, seed: int = 0) -> HeldOut:
    return hold_out(
        table,
        costs=COSTS,
        groups=PANELS,
        known=KNOWN,
        budget=BUDGET,
        test_fraction=test_fraction,
        seed=seed,
    )


def user_table() -> UserTable:
    table = patients()
    y = (table.pop("sick") == "yes").to_numpy(np.int64)
    return UserTable("patients.csv", table, "sick", ("no", "yes"), y, unlabelled=0)


@cache
def fitted() -> tuple[HeldOut, Leaderboard, tuple[str, ...]]:
    """Fit once for all tests; also return what `on_stage` was called with."""
    data = held_out(user_table())
    shown: list[str] = []
    board = compare(data, CANDIDATES, restorer="hotdeck", effort="low", on_stage=shown.append)
    return data, board, tuple(shown)


@cache
def fitted_with_costs() -> tuple[HeldOut, Leaderboard]:
    """The same where it is nine times as bad to miss the sick as to treat the others."""
    costs = {"no": {"yes": 1.0}, "yes": {"no": 9.0}}
    data = replace(fitted()[0], problem=fitted()[0].problem.with_decision_costs(costs))
    return data, compare(data, CANDIDATES, restorer="hotdeck", effort="low")
