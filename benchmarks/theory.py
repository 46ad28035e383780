"""Does the theory (section 4) hold for learned policies? Their exact regret on the shortcut problem.

    python benchmarks/theory.py                                  # six methods, five seeds: minutes on a GPU
    python benchmarks/theory.py --methods jafa --seeds 1         # minutes on two cores
    python benchmarks/theory.py --protocol afabench              # training overshoots the budget: cannot hold
    python benchmarks/theory.py --methods odin jafa --centred    # for the PVAE, see below

Every method is trained on tables of the shortcut problem: complete; restricted, with holes at the given rate
(MCAR); and restored, with cells drawn from the problem's true conditional given the row's other cells and its
label, by a PVAE, or by a hot deck. Regret is computed exactly, with the Bayes predictor: 0 is the context and
then the branch that it names; 1/4 is the shortcut, but also one or both branches without the context, or the
context and then always the same branch; 1/2 is a guess.

Expected losses of the routes in nats, which JAFA is rewarded by, at rate p: the context p ln 2; a branch bit
and then the context or the other bit ln 2 / 2 + p^2 (H(1/4) - ln 2 / 2); the shortcut H(1/4) = .562. So JAFA
(s) should leave the context for a branch bit at p = .62, not at the 1/2 of zero-one loss. The PVAE sees a
value times its feature's embedding, so with values 0 and 1 it (and ODIN) cannot tell the zeros of different
features apart; `--centred` writes -1 and 1.

All seeds, treatments and rates of a method and state variant are trained in one program.
"""

import argparse
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import PRNGKeyArray
from rich.console import Console
from rich.table import Table as Printed

from ascertain import Problem, Protocol, Table, methods
from ascertain._core.compilation import replicated
from ascertain.exact import FiniteProblem, shortcut
from ascertain.exact._distribution import TrueDistribution
from ascertain.exact._policies import plan_from_scores, problem_of, score_states, state_rows, table_of
from ascertain.methods._registry import State
from ascertain.missingness import MCAR, mask_tables
from ascertain.predictors._masked_mlp import Predictor
from ascertain.protocol import protocol as protocol_named
from ascertain.restoration import PVAERestorer, fit_hotdeck, fit_pvae, restore
from ascertain.restoration._pvae import Settings as PVAESettings

METHODS = ("jafa", "ol", "odin", "gdfs", "dime", "aaco")
TREATMENTS = ("complete", "restricted", "true", "pvae", "hotdeck")
VALID_SHARE = 5  # a fifth of the training rows again, for validation

console = Console(width=150)


@dataclass(frozen=True)
class Study:
    """What to run."""

    methods: Sequence[str]
    treatments: Sequence[str]
    seeds: int
    rates: Sequence[float]
    protocol: Protocol
    rows: int
    d: int
    budget: int
    centred: bool


class Centred(eqx.Module):
    """A predictor from values -1 and 1 by way of one from 0 and 1."""

    predictor: TrueDistribution

    def __call__(self, x: jax.Array, observed: jax.Array) -> jax.Array:
        """Give class probabilities."""
        return self.predictor((x + 1) / 2, observed)


def centre(table: Table) -> Table:
    """Write -1 and 1 for 0 and 1; holes stay."""
    return table.with_cells(2 * table.x - 1, table.available)


def uncentre(table: Table) -> Table:
    return table.with_cells((table.x + 1) / 2, table.available)


@dataclass(frozen=True)
class Replicate:
    """One training set: how it came about, and its tables."""

    seed: int
    rate: float  # of the holes, restored or not
    treatment: str
    train: Table
    valid: Table

    def key(self, purpose: str) -> PRNGKeyArray:
        """Make a key of what this is."""
        return key_of(purpose, self.seed, self.rate, self.treatment)


def key_of(*what: object) -> PRNGKeyArray:
    return jr.key(zlib.crc32(repr(what).encode()))


def stack(trees: Iterable[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def timed(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Compile and run a function, and print how long each took."""
    start = time.perf_counter()
    compiled = jax.jit(function).lower(*arguments).compile()
    compiling = time.perf_counter() - start
    start = time.perf_counter()
    result = jax.block_until_ready(compiled(*arguments))
    running = time.perf_counter() - start
    console.print(f"{name}: compile {compiling:.1f} s, run {running:.1f} s", highlight=False)
    return result


def replicates(world: FiniteProblem, study: Study) -> list[Replicate]:
    """Draw training and validation tables for every seed, and treat them in every way."""
    found = []
    for seed in range(study.seeds):
        rng = np.random.default_rng([seed, study.d, study.budget, study.rows])
        train = table_of(world, world.sample(rng, study.rows))
        valid = table_of(world, world.sample(rng, max(1, study.rows // VALID_SHARE)))
        found.append(Replicate(seed, 0.0, "complete", train, valid))
    problem = problem_of(world).without_names()
    masked = []
    for rate in study.rates:
        for r in found:
            tables = mask_tables(r.key("mask"), MCAR, problem, r.train, r.valid, rate)
            masked.append(Replicate(r.seed, rate, "restricted", *tables))
    known = {"complete": found, "restricted": masked}
    of_treatment = [
        known.get(each) or restored(each, masked, world, study.centred) for each in study.treatments
    ]
    return [replicate for part in of_treatment for replicate in part]


def restored(treatment: str, masked: list[Replicate], world: FiniteProblem, centred: bool) -> list[Replicate]:
    """Fill the holes of all tables in one way."""
    problem, truth = problem_of(world).without_names(), TrueDistribution(world)

    def fill(key: PRNGKeyArray, train: Table, valid: Table) -> tuple[Table, Table]:
        fitting, *drawing = jr.split(key, 3)
        restorer: Any = truth
        if treatment == "hotdeck":
            restorer = fit_hotdeck(fitting, problem, train)
        if treatment == "pvae":
            train, valid = (centre(train), centre(valid)) if centred else (train, valid)
            restorer = PVAERestorer(fit_pvae(fitting, problem, train, valid, PVAESettings()))
        filled = restore(drawing[0], restorer, train), restore(drawing[1], restorer, valid)
        back = treatment == "pvae" and centred
        return (uncentre(filled[0]), uncentre(filled[1])) if back else filled

    keys = jnp.stack([r.key(treatment) for r in masked])
    tables = (stack(r.train for r in masked), stack(r.valid for r in masked))
    trains, valids = timed(f"restore by {treatment}", replicated(fill), keys, *tables)
    return [
        Replicate(r.seed, r.rate, treatment, *jax.tree.map(lambda leaf, i=i: leaf[i], (trains, valids)))
        for i, r in enumerate(masked)
    ]


def fit_all(name: str, cells: list[Replicate], world: FiniteProblem, study: Study) -> list[dict[str, Any]]:
    """Train a method on all tables, in each of its state variants, and give what came out."""
    method, problem, protocol = methods.get(name), problem_of(world).without_names(), study.protocol
    settings = method.completed(method.settings(), problem, protocol)
    predictor: Predictor = TrueDistribution(world)
    x, acquired = state_rows(world)
    keys = jnp.stack([cell.key(name) for cell in cells])
    tables = (stack(cell.train for cell in cells), stack(cell.valid for cell in cells))
    if study.centred:
        predictor, x = Centred(TrueDistribution(world)), jnp.where(acquired, 2 * x - 1, 0.0)
        tables = (centre(tables[0]), centre(tables[1]))
    pretrained = None
    if method.pretrain is not None:
        pretrained = timed(
            f"{name}: pretraining",
            replicated(pretrain_one(method, problem, settings, protocol)),
            keys,
            *tables,
        )

    def fit_one(state: State) -> Callable[..., jax.Array]:
        def fit(key: PRNGKeyArray, train: Table, valid: Table, pretrained: Any) -> jax.Array:
            policy = method.fit(
                key,
                problem,
                train,
                valid,
                predictor=predictor,
                pretrained=pretrained,
                settings=settings,
                state=state,
                protocol=protocol,
            )
            return score_states(policy, x, acquired, key)

        return fit

    rows = []
    for state in method.states:
        scores = timed(f"{name} ({state})", replicated(fit_one(state)), keys, *tables, pretrained)
        rows += [
            outcome(name, state, cell, each, world, protocol)
            for cell, each in zip(cells, scores, strict=True)
        ]
        summary = summarise(pd.DataFrame(rows[-len(cells) :]))
        console.print("  regret: " + "; ".join(f"{k} {v}" for k, v in summary.items()), highlight=False)
    return rows


def pretrain_one(
    method: methods.Method, problem: Problem, settings: Any, protocol: Protocol
) -> Callable[..., Any]:
    def pretrain(key: PRNGKeyArray, train: Table, valid: Table) -> Any:
        assert method.pretrain is not None
        own = jr.fold_in(key, 1)
        return method.pretrain(own, problem, train, valid, settings=settings, protocol=protocol)

    return pretrain


def outcome(
    name: str, state: str, cell: Replicate, scores: jax.Array, world: FiniteProblem, protocol: Protocol
) -> dict[str, Any]:
    """Say what a policy does, and what it loses."""
    plan = plan_from_scores(world, scores, protocol)
    return {
        "method": name,
        "state": state,
        "protocol": protocol.name,
        "treatment": cell.treatment,
        "rate": cell.rate,
        "seed": cell.seed,
        "regret": world.regret(plan),
        "first_action": plan.first_action or "stop",
        "plan": str(plan),
    }


def summarise(results: pd.DataFrame) -> dict[str, str]:
    """Give a method's mean regrets with standard errors, and how many of the seeds begin with what."""
    rates = [f", p = {rate:g}" if rate else "" for rate in results["rate"]]
    found = {}
    columns = results["treatment"] + rates
    for column in columns.unique():
        part = results[columns == column]
        error = f" +- {part['regret'].sem():.3f}" if len(part) > 1 else ""
        first = Counter(action.rstrip("0123456789.") for action in part["first_action"])
        begins = ", ".join(f"{action} {count}" for action, count in first.most_common())
        found[column] = f"{part['regret'].mean():.3f}{error} ({begins})"
    return found


def print_table(results: pd.DataFrame, study: Study) -> None:
    """Print what all methods came to."""
    title = (
        f"Exact regret, d = {study.d}, b = {study.budget}, n = {study.rows:,}, {study.seeds} seeds, "
        f"{study.protocol.name} protocol: mean +- s.e., and first acquisitions"
    )
    printed = Printed(title=title, show_lines=True)
    rows = {
        f"{name} ({state})": summarise(results[(results["method"] == name) & (results["state"] == state)])
        for name, state in dict.fromkeys(zip(results["method"], results["state"], strict=True))
    }
    printed.add_column("method")
    for column in next(iter(rows.values())):
        printed.add_column(column)
    for row, found in rows.items():
        printed.add_row(row, *found.values())
    console.print(printed)


def save(results: pd.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        results.to_parquet(path, index=False)
    else:
        results.to_json(path, orient="records", indent=1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=methods.names())
    parser.add_argument("--treatments", nargs="+", default=TREATMENTS, choices=TREATMENTS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rates", nargs="+", type=float, default=[0.7])
    parser.add_argument("--protocol", default="paper", choices=("paper", "afabench"))
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--d", type=int, default=6)
    parser.add_argument("--budget", type=int, default=2)
    parser.add_argument(
        "--centred", action="store_true", help="write the values as -1 and 1 instead of 0 and 1"
    )
    parser.add_argument(
        "--out", type=Path, help="also write every replicate's regret and plan (.parquet or .json)"
    )
    return parser.parse_args()


def main() -> None:
    given = arguments()
    study = Study(
        methods=given.methods,
        treatments=given.treatments,
        seeds=given.seeds,
        rates=given.rates,
        protocol=protocol_named(given.protocol),
        rows=given.rows,
        d=given.d,
        budget=given.budget,
        centred=given.centred,
    )
    console.print(f"device: {jax.devices()[0].device_kind}", highlight=False)
    world = shortcut(study.d, study.budget)
    cells = replicates(world, study)
    found: list[dict[str, Any]] = []
    for name in study.methods:
        found += fit_all(name, cells, world, study)
        if given.out is not None:
            save(pd.DataFrame(found), given.out)  # after every method, in case a later one is interrupted
    print_table(pd.DataFrame(found), study)


if __name__ == "__main__":
    main()
