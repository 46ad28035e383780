"""How long `ascertain fit` takes on tables as people have them, and whether its claims hold.

    python benchmarks/practice.py                                     # all tables; half an hour on two cores
    python benchmarks/practice.py heart_sites maintenance credit      # some of them
    python benchmarks/practice.py --refits 20 --rows 20000 --jobs 2   # of the rare outcome, with other data

Every fit is a process of its own in which nothing was compiled before. Times and memory are beside what they
should be at most on two quiet cores. Where a table is simulated, the chosen policy is also followed on 40,000
complete rows that no fit has seen: the truth, beside what was claimed. Real tables are those of
`ascertain data`; they are looked for in ASCERTAIN_DATA.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from practice_tables import KINDS, Kind, PracticeTable, rare_outcome
from rich.console import Console
from rich.table import Table as Printed

from ascertain import AcquisitionClassifier, evaluate
from ascertain.problem import Table

console = Console(width=150)


@dataclass(frozen=True)
class Run:
    """One fit: what it took, what it claimed, and the truth if that is known."""

    seconds: float
    cpu_seconds: float
    gigabytes: float
    claim: dict[str, Any]  # an AUROC with its interval
    found: dict[str, Any]  # all that `ascertain fit --json` printed
    truth: float | None

    @property
    def holds(self) -> bool | None:
        """Whether the interval holds the truth."""
        return None if self.truth is None else self.claim["low"] <= self.truth <= self.claim["high"]


def run(table: PracticeTable, effort: str, seed: int) -> Run:
    """Fit in a process of its own, with nothing compiled, and compare with the truth."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "ascertain", "fit", *table.write(folder)]
        command += ["--effort", effort, "--seed", str(seed), "--json", "--out", str(folder / "model")]
        own_cache = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
        output, errors = folder / "output", folder / "errors"
        start = time.perf_counter()
        with output.open("w") as printed, errors.open("w") as complained:
            process = subprocess.Popen(command, stdout=printed, stderr=complained, env=own_cache)
            _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        if status:
            raise SystemExit(errors.read_text())
        found = json.loads(output.read_text())
        truth = None if table.fresh is None else true_auroc(folder / "model", table)
    return Run(
        seconds,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / 2**20,
        claim_of(found, chosen(found)),
        found,
        truth,
    )


def chosen(found: dict[str, Any]) -> dict[str, Any]:
    """The policy that was chosen."""
    (policy,) = (each for each in found["policies"] if each["chosen"])
    return dict(policy)


def claim_of(found: dict[str, Any], policy: dict[str, Any]) -> dict[str, Any]:
    """The AUROC of a policy at the full budget, by the estimate that is reported."""
    (claim,) = (
        each
        for each in policy["scores"]
        if (each["metric"], each["estimator"]) == ("auroc", found["estimator"])
        and np.isclose(each["budget"], found["budget"])
    )
    return dict(claim)


def true_auroc(model: Path, table: PracticeTable) -> float:
    """Follow a saved policy on complete rows."""
    assert table.fresh is not None
    advisor = AcquisitionClassifier.load(model).advisor_
    names = [column.name for column in advisor.encoding.columns]
    x, available = advisor.encoding.transform(table.fresh[names], unseen="missing")
    labels = [str(each) for each in advisor.classes]
    y = np.array([labels.index(str(each)) for each in table.fresh[table.target]])
    rows = Table(jnp.asarray(x), jnp.asarray(y), jnp.asarray(available), n_classes=len(labels))
    scores = evaluate(advisor.policy, advisor.problem, rows, advisor.predictor, budgets=[table.budget])
    return float(scores["auroc"].iloc[0])


def time_tables(names: list[str], rows: int | None, seed: int) -> None:
    """Print what each table took, and what was claimed of it."""
    times = Printed("table", "s", "at most", "CPU s", "GiB", "at most", title="Fits, nothing compiled before")
    claims = Printed(
        "table", "chosen", "claim", "truth", "holds", "effective rows", "better than the panel by"
    )
    for name in names:
        kind = KINDS[name]
        n_rows = rows or kind.rows
        done = run(kind.make(seed, n_rows), kind.effort, seed)
        label = f"{name}, {n_rows:,} rows, {kind.effort}"
        times.add_row(label, *_took(done, kind if n_rows == kind.rows else None))
        claims.add_row(label, *_claimed(done))
        console.print(f"{label}: {done.seconds:.0f} s", highlight=False)
    console.print(times)
    console.print(claims)


def _took(done: Run, kind: Kind | None) -> tuple[str, ...]:
    most = ("", "") if kind is None else (f"{kind.seconds:g}", f"{kind.gigabytes or ''}")
    return (f"{done.seconds:.0f}", most[0], f"{done.cpu_seconds:.0f}", f"{done.gigabytes:.2f}", most[1])


def _claimed(done: Run) -> tuple[str, ...]:
    policy, claim = chosen(done.found), done.claim
    better = policy["better_than_panel"]
    return (
        policy["name"],
        _interval(claim),
        "" if done.truth is None else f"{done.truth:.3f}",
        {None: "", True: "yes", False: "NO"}[done.holds],
        f"{claim['effective_rows']:,.0f}, {claim['rarest_effective_rows']:,.0f} of {claim['rarest_class']}",
        "" if better is None else _interval(better),
    )


def _interval(found: dict[str, Any]) -> str:
    return "{estimate:.3f} ({low:.3f} to {high:.3f})".format(**found)


def refit(number: int, rows: int, jobs: int, seed: int) -> None:
    """Fit the table with a rare outcome again and again, with new data each time; count what holds."""

    def one(place: int) -> Run:
        return run(rare_outcome(seed + place, rows), "low", seed + place)

    with ThreadPoolExecutor(jobs) as pool:
        done = []
        for place, each in enumerate(pool.map(one, range(number))):
            done.append(each)
            better = {True: "holds", False: "does not hold"}[bool(each.holds)]
            text = f"{place}: {chosen(each.found)['name']}, {_interval(each.claim)} {better} {each.truth:.3f}"
            console.print(f"{text}; {each.seconds:.0f} s", highlight=False)
    errors = [each.claim["estimate"] - each.truth for each in done if each.truth is not None]
    console.print(
        f"{sum(bool(each.holds) for each in done)} of {number} intervals hold the truth; the claims are off "
        f"by {np.mean(errors):+.3f} on average (standard error {np.std(errors) / np.sqrt(len(errors)):.3f})"
    )


def main() -> None:
    """Time tables, or refit one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", help=f"some of {', '.join(KINDS)}; by default all")
    parser.add_argument("--rows", type=int, help="other than a table's own number of rows")
    parser.add_argument("--refits", type=int, default=0, help="of the table with a rare outcome")
    parser.add_argument("--jobs", type=int, default=1, help="fits at the same time, with --refits")
    parser.add_argument("--seed", type=int, default=0, help="of the data and of the fits")
    given = parser.parse_args()
    for name in given.tables:
        if name not in KINDS:
            parser.error(f"no table is called {name!r}; there are {', '.join(KINDS)}")
    if given.refits:
        refit(given.refits, given.rows or 20_000, given.jobs, given.seed)
    else:
        time_tables(given.tables or list(KINDS), given.rows, given.seed)


if __name__ == "__main__":
    main()
