"""Speed and memory of the exact study: where the time goes and how it grows with d, b and n.

    python benchmarks/exact.py

One process, one core; the study itself uses one process per core.
"""

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import numpy as np
from rich.console import Console
from rich.table import Table

from ascertain.exact import Plan, shortcut
from ascertain.exact._bits import count_states
from ascertain.exact._recursion import estimate, solve, solve_aliasing
from ascertain.exact._shortcut import sample_bits
from ascertain.exact._study import Arm, Sweep, Task, regrets_of

RATE = 0.6
STAGES = ("draw", "count pooled", "count complete rows", "count unmasked", "plan", "aliasing", "regret")


def stages(d: int, budget: int, n: int, replicates: int) -> tuple[dict[str, float], float]:
    """Give the seconds that each stage of one replicate takes, on average, and the peak megabytes."""
    spent: dict[str, float] = defaultdict(float)

    @contextmanager
    def timed(stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        spent[stage] += (time.perf_counter() - start) / replicates

    problem = shortcut(d, budget)
    space = problem.space
    for replicate in range(replicates):
        rng = np.random.Generator(np.random.SFC64(replicate))
        with timed("draw"):
            unmasked, masked = sample_bits(rng, d, budget, n, RATE)
        with timed("count pooled"):
            pooled = estimate(space, problem.prediction, count_states(masked, space))
        with timed("count complete rows"):
            filtered = estimate(space, problem.prediction, count_states(masked.complete(), space))
        with timed("count unmasked"):
            full = estimate(space, problem.prediction, count_states(unmasked, space))
        plans = []
        for horizon in (1, None):
            with timed("plan"):
                plans += [Plan(problem, solve(space, e, horizon), e.stop) for e in (pooled, filtered, full)]
            with timed("aliasing"):
                plans.append(Plan(problem, solve_aliasing(space, pooled, masked, horizon), pooled.stop))
        with timed("regret"):
            for plan in plans:
                problem.regret(plan)
    return dict(spent), peak_memory()


def peak_memory() -> float:
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def in_a_process_of_its_own(*arguments: int) -> tuple[dict[str, float], float]:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(stages, *arguments).result()


def main() -> None:
    console = Console(width=150)
    sizes = (100, 10_000, 1_000_000)
    table = Table(title=f"Milliseconds per replicate (four approaches, two horizons, p = {RATE}), one core")
    for name in ("d", "b", "states", "n", *STAGES, "total", "rows/s", "peak MB"):
        table.add_column(name, justify="right")
    for d, budget in ((6, 2), (8, 2), (10, 2), (10, 3), (10, 4), (14, 2)):
        for n in sizes:
            spent, peak = in_a_process_of_its_own(d, budget, n, 20 if n < 10**6 else 3)
            total = sum(spent.values())
            table.add_row(
                str(d),
                str(budget),
                str(len(shortcut(d, budget).space)),
                f"{n:,}",
                *(f"{1e3 * spent[stage]:.2f}" for stage in STAGES),
                f"{1e3 * total:.2f}",
                f"{n / total:,.0f}",
                f"{peak:.0f}",
            )
    console.print(table)

    sweep, cores = Sweep(), 2
    start = time.perf_counter()
    for arm in sweep.arms:
        regrets_of(Task(arm, tuple(sweep.sizes), replicate=0, seed=0))
    seconds = time.perf_counter() - start
    console.print(
        f"One replicate of the study ({len(sweep.arms)} arms, {len(sweep.sizes)} sizes): {seconds:.2f} s of "
        f"one core; {sweep.replicates} on {cores} cores: about {seconds * sweep.replicates / cores:.0f} s"
    )
    start = time.perf_counter()
    regrets_of(Task(Arm(10, 4, RATE), (10**6,), replicate=0, seed=0))
    console.print(f"The largest training set (d = 10, b = 4, n = 10^6): {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
