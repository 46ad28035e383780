"""Learned policies on real tables, compared with a random order and with using everything on file.

    python benchmarks/leaderboards.py heart_sites          # 920 patients, prices in dollars; two minutes
    python benchmarks/leaderboards.py physionet2012        # 12,000 patients, 41 measurements; ten minutes

The table goes through the same steps as in `ascertain fit`. Two rows are added to its leaderboard: a random
order, and gradient boosting on all that is on file about a test row, whatever it cost. The scores of policies
are estimates for patients of whom everything could be measured, made from rows that lack much of it.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as Printed
from sklearn.ensemble import HistGradientBoostingClassifier

from ascertain import load
from ascertain.datasets._export import TARGET, export
from ascertain.evaluation._intervals import WeightedPredictions, intervals
from ascertain.practice.comparison._held_out import HeldOut, hold_out
from ascertain.practice.comparison._leaderboard import (
    DEFAULTS,
    RESTORERS,
    Candidate,
    FittedCandidate,
    Leaderboard,
    compare,
)
from ascertain.problem import Table
from ascertain.tables._reading import read_user_table

console = Console(width=120)
METRICS = ("auroc", "auprc", "f1")
KNOWN = {"heart_sites": ("age", "sex", "site"), "physionet2012": ("Age", "Gender", "ICUType")}
BUDGETS = {"heart_sites": 120.0, "physionet2012": 5.0}
RANDOM = Candidate("random", "s", "restored")


def held_out(name: str, budget: float) -> HeldOut:
    """Write a dataset as a user's file, and read that."""
    exported = export(load(name))
    outcome = exported.table[TARGET]
    # The area under the precision-recall curve is that of the second class; here the rarer one matters.
    by_size = {label: f"{place} {label}" for place, label in enumerate(outcome.value_counts().index)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.csv"
        exported.table.assign(**{TARGET: outcome.map(by_size)}).to_csv(path, index=False)
        table = read_user_table(path, TARGET)
    known = KNOWN[name]
    prices = {column: price for column, price in exported.prices.items() if column not in known}
    return hold_out(table, costs=prices, groups=exported.panels, known=known, budget=budget)


def boosting(data: HeldOut) -> list[str]:
    """Score gradient boosting on all that is on file; the cells of a row to print."""

    def cells(table: Table) -> np.ndarray:
        return np.where(np.asarray(table.available), np.asarray(table.x), np.nan)

    x = np.concatenate([cells(data.training), cells(data.selection)])
    y = np.concatenate([np.asarray(data.training.y), np.asarray(data.selection.y)])
    start = time.perf_counter()
    model = HistGradientBoostingClassifier(random_state=0).fit(x, y)
    seconds = time.perf_counter() - start
    n_rows = len(data.test.y)
    on_file = np.asarray(data.problem.readable(data.test.available))
    sample = WeightedPredictions(
        row=np.arange(n_rows),
        weight=np.ones(n_rows),
        probabilities=model.predict_proba(cells(data.test)),
        y=np.asarray(data.test.y),
        amounts={"mean_cost": data.encoding.price_list.total(on_file)},
    )
    found = sample.scores()
    low, high = intervals(sample, found, n_rows, level=0.95)
    scores = [_score(found[name], low[name], high[name]) for name in METRICS]
    return ["boosting, all on file", f"{found['mean_cost']:.3g}", *scores, f"{n_rows}", f"{seconds:.0f}"]


def policy(board: Leaderboard, fitted: FittedCandidate, estimator: str) -> list[str]:
    """The cells of a policy's row to print."""
    budget = board.budgets[-1]
    found = [fitted.score(budget, estimator, name) for name in METRICS]
    scores = [_score(each.estimate, each.low, each.high) for each in found]
    cost = fitted.score(budget, estimator, "mean_cost").estimate
    name, rows = fitted.name, f"{found[0].effective_rows:.0f}"
    return [name, f"{cost:.3g}", *scores, rows, f"{fitted.seconds:.0f}"]


def _score(estimate: float, low: float, high: float) -> str:
    return f"{estimate:.3f} ({low:.3f}-{high:.3f})" if np.isfinite(estimate) else "-"


def main() -> None:
    """Compare, and print a table per estimator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dataset", choices=KNOWN)
    parser.add_argument("--budget", type=float, help="by default 120 dollars, or 5 measurements")
    parser.add_argument("--effort", default="standard", choices=("standard", "low"))
    arguments = parser.parse_args()
    budget = arguments.budget or BUDGETS[arguments.dataset]
    data = held_out(arguments.dataset, budget)
    start = time.perf_counter()
    effort = arguments.effort
    board = compare(
        data,
        (*DEFAULTS[effort], RANDOM),
        restorer=RESTORERS[effort],
        effort=effort,
        on_stage=console.print,
    )
    seconds = time.perf_counter() - start
    all_on_file = boosting(data)
    for estimator in ("dr", "ipw"):
        title = f"{arguments.dataset}, budget {budget:g}, {estimator}, {len(data.test.y)} test rows"
        printed = Printed("", "mean cost", *METRICS, "effective rows", "fit s", title=title)
        for fitted in board.candidates:
            printed.add_row(*policy(board, fitted, estimator))
        printed.add_row(*all_on_file)
        console.print(printed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    console.print(f"{seconds:.0f} s for all policies, peak memory {peak:.1f} GiB", highlight=False)


if __name__ == "__main__":
    main()
