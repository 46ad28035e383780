"""Speed of the predictor and the PVAE, and how well each restorer fills held-out cells.

    python benchmarks/data.py                  # two CPU cores: predictors, one PVAE, quality of restoration
    python benchmarks/data.py --replicates 60  # a GPU: so many PVAEs (splits, mechanisms, rates) in one call

Compile and run are timed apart; the persistent compilation cache is not used.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from rich.console import Console
from rich.table import Table as Printed
from scipy import stats

from ascertain import Problem, Table, missingness
from ascertain._core.compilation import replicated
from ascertain.datasets import load
from ascertain.missingness import MCAR, mask_tables
from ascertain.predictors._masked_mlp import fit_predictor
from ascertain.recipe._presets import predictor_settings, restorer_settings
from ascertain.restoration import PVAERestorer, fit_hotdeck, fit_mean, fit_pvae, restore
from ascertain.restoration._pvae import Settings

console = Console(width=120)
RATES = (0.3, 0.5, 0.7)


def timed(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Compile and run a function, and print how long each took."""
    start = time.perf_counter()
    compiled = jax.jit(function).lower(*arguments).compile()
    compiling = time.perf_counter() - start
    start, cpu = time.perf_counter(), time.process_time()
    result = jax.block_until_ready(compiled(*arguments))
    running, cpu = time.perf_counter() - start, time.process_time() - cpu
    console.print(
        f"{name}: compile {compiling:.1f} s, run {running:.1f} s (CPU {cpu:.1f} s)", highlight=False
    )
    return result


def stack(trees: Iterable[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def masked_replicates(name: str, count: int) -> tuple[Problem, Table, Table]:
    """Give training and validation tables of several splits, mechanisms and rates, stacked."""
    dataset = load(name)
    problem = dataset.problem.without_names()
    splits = [dataset.split(index) for index in range(5)]
    cells = [(s, m, r) for s in splits for m in map(missingness.get, missingness.names()) for r in RATES][
        :count
    ]
    key = jr.key(0)
    pairs = [mask_tables(key, m, problem, s.train, s.valid, r) for s, m, r in cells]
    return problem, stack(train for train, _ in pairs), stack(valid for _, valid in pairs)


def many_pvaes(name: str, count: int) -> None:
    problem, train, valid = masked_replicates(name, count)
    settings = restorer_settings("pvae", load(name))

    def fit_all(keys: jax.Array, train: Table, valid: Table) -> Any:
        return replicated(lambda k, t, v: fit_pvae(k, problem, t, v, settings))(keys, train, valid)

    timed(f"{count} PVAEs on {name} in one call", fit_all, jr.split(jr.key(1), count), train, valid)
    memory = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in memory:
        console.print(f"  peak device memory {memory['peak_bytes_in_use'] / 2**30:.1f} GiB", highlight=False)


def five_predictors(name: str) -> None:
    dataset = load(name)
    problem, settings = dataset.problem.without_names(), predictor_settings(dataset)
    splits = [dataset.split(index) for index in range(5)]
    train, valid = stack(s.train for s in splits), stack(s.valid for s in splits)

    def fit_all(keys: jax.Array, train: Table, valid: Table) -> Any:
        return replicated(lambda k, t, v: fit_predictor(k, problem, t, v, settings))(keys, train, valid)

    models = timed(
        f"five {name} predictors, {settings.epochs} epochs", fit_all, jr.split(jr.key(0), 5), train, valid
    )
    probabilities = jax.vmap(lambda m, t: m(t.x, t.available))(models, valid)
    accuracy = np.asarray((jnp.argmax(probabilities, -1) == valid.y).mean(axis=1))
    console.print(f"  validation accuracy {accuracy.mean():.3f} +- {accuracy.std(ddof=1) / 5**0.5:.3f}")


def one_pvae(name: str) -> None:
    dataset = load(name)
    problem, split = dataset.problem.without_names(), dataset.split(0)
    train, valid = mask_tables(jr.key(0), MCAR, problem, split.train, split.valid, 0.7)
    settings = restorer_settings("pvae", dataset)

    def fit(settings: Settings) -> Callable[..., Any]:
        return lambda key, train, valid: fit_pvae(key, problem, train, valid, settings)

    timed(f"one {name} PVAE to its early stop", fit(settings), jr.key(1), train, valid)
    fixed = replace(settings, schedule=replace(settings.schedule, max_rounds=20, patience=None))
    timed(f"one {name} PVAE, 2,000 batches", fit(fixed), jr.key(1), train, valid)


def restoration_quality(name: str, rate: float = 0.7) -> None:
    """Compare restorers by their error on held-out observed cells of validation rows, over five splits."""
    dataset = load(name)
    problem, settings = dataset.problem.without_names(), restorer_settings("pvae", dataset)
    fit = eqx.filter_jit(lambda key, train, valid: fit_pvae(key, problem, train, valid, settings))
    errors: dict[str, list[float]] = {}
    for index in range(5):
        split = dataset.split(index)
        masking, fitting, hiding, drawing = jr.split(jr.key(index), 4)
        train, valid = mask_tables(masking, MCAR, problem, split.train, split.valid, rate)
        model = fit(fitting, train, valid)
        seen = MCAR.fit(hiding, problem, valid, 0.2).sample(hiding, valid)
        held_out = np.asarray(valid.available & ~seen.available)
        mean, deck = fit_mean(train), fit_hotdeck(fitting, problem, train)
        filled = {
            "mean": restore(drawing, mean, seen).x,
            "hot deck": restore(drawing, deck, seen).x,
            "PVAE draw": restore(drawing, PVAERestorer(model), seen).x,
            "PVAE mean": model.reconstruct(drawing, seen, sample=False),
            "PVAE draw, label-free": restore(drawing, PVAERestorer(model, see_label=False), seen).x,
        }
        for restorer, x in filled.items():
            off = (np.asarray(x) - np.asarray(valid.x))[held_out]
            errors.setdefault(restorer, []).append(float(np.sqrt(np.mean(off**2))))
    printed = Printed(title=f"RMSE on held-out cells, {name}, MCAR {rate}, five splits")
    for column in ("restorer", "RMSE", "s.e.", "p (better than the mean, one-sided paired t)"):
        printed.add_column(column)
    baseline = np.array(errors["mean"])
    for restorer, values in errors.items():
        found = np.array(values)
        p = "" if restorer == "mean" else f"{stats.ttest_rel(found, baseline, alternative='less').pvalue:.2g}"
        printed.add_row(restorer, f"{found.mean():.4f}", f"{found.std(ddof=1) / 5**0.5:.4f}", p)
    console.print(printed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="cube")
    parser.add_argument("--replicates", type=int, help="fit so many PVAEs in one call, and nothing else")
    arguments = parser.parse_args()
    console.print(f"device: {jax.devices()[0].device_kind}", highlight=False)
    if arguments.replicates:
        many_pvaes(arguments.dataset, arguments.replicates)
        return
    five_predictors(arguments.dataset)
    one_pvae(arguments.dataset)
    restoration_quality(arguments.dataset)


if __name__ == "__main__":
    main()
