"""The exact study of the paper's section 5.1: regret against training size, for every approach."""

import fcntl
import json
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ascertain._core.checks import check_count, check_rate
from ascertain._core.files import leftovers, replacing
from ascertain.errors import AscertainError, InputError, StoreError
from ascertain.exact._bits import BitRows
from ascertain.exact._planning import Approach, estimate_from, plan_from
from ascertain.exact._recursion import Estimates
from ascertain.exact._shortcut import check_shortcut, sample_bits, shortcut

MAX_SIZE = 10**8  # some gigabytes of bits
MAX_REPLICATES = 10**6
_SAVE_EVERY = 15.0  # seconds
_METADATA = b"ascertain"
# What readers of Parquet and JSON raise for damaged files. Checksums cover numbers, not what describes them.
_UNREADABLE = (OSError, pa.ArrowException, ValueError, LookupError, TypeError, RecursionError)
_SAMPLER = 1  # raised whenever the study draws other data for the same seed


class Arm(NamedTuple):
    """One problem of the study and how much of its training data is missing."""

    d: int
    budget: int
    rate: float


class Regret(NamedTuple):
    """A row of the result: the regret of one approach on one training set."""

    d: int
    budget: int
    rate: float
    n: int
    approach: Approach
    horizon: int  # 1, or the budget for full planning
    replicate: int
    regret: float


_TYPES = {int: pa.int64(), float: pa.float64(), Approach: pa.string()}
SCHEMA = pa.schema({name: _TYPES[kind] for name, kind in Regret.__annotations__.items()})


@dataclass(frozen=True)
class Sweep:
    """What to study; the defaults are the paper's.

    The dimension sweep takes every `d` of `dims` at the smallest budget, at all rates. The budget sweep
    takes every budget at the largest `d`, at the first rate, which is that of the main figure; the other
    rates are for the collapse figure.

    Examples
    --------
    >>> quick = Sweep(dims=(6,), budgets=(2,), rates=(0.6,), sizes=(100,), replicates=2)
    >>> quick.arms
    [Arm(d=6, budget=2, rate=0.6)]
    """

    dims: Sequence[int] = (6, 8, 10)
    budgets: Sequence[int] = (2, 3, 4)
    rates: Sequence[float] = (0.6, 0.3, 0.5, 0.7)
    sizes: Sequence[int] = tuple(round(10 ** (k / 4)) for k in range(4, 25))
    replicates: int = 150
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("dims", "budgets", "rates", "sizes"):
            values = getattr(self, name)
            if len(values) == 0:
                raise InputError(f"{name} is empty")
            if len(set(values)) < len(values):
                raise InputError(f"{name} lists a value twice: {', '.join(map(str, values))}")
        for rate in self.rates:
            check_rate(rate)
        for n in self.sizes:
            if check_count("sizes", n, least=1) > MAX_SIZE:
                raise InputError(f"sizes must be at most {MAX_SIZE:,}, got {n:g}")
        if check_count("replicates", self.replicates, least=1) > MAX_REPLICATES:
            raise InputError(f"replicates must be at most {MAX_REPLICATES:,}, got {self.replicates:g}")
        check_count("seed", self.seed, least=0)
        for arm in self.arms:
            check_shortcut(arm.d, arm.budget)

    @property
    def arms(self) -> list[Arm]:
        """Every combination of dimension, budget and rate to study."""
        across_dims = [Arm(d, min(self.budgets), rate) for rate in self.rates for d in self.dims]
        across_budgets = [Arm(max(self.dims), budget, self.rates[0]) for budget in self.budgets]
        return list(dict.fromkeys(across_dims + across_budgets))


class Task(NamedTuple):
    """One replicate of an arm at some training sizes: the unit of parallel work."""

    arm: Arm
    sizes: tuple[int, ...]
    replicate: int
    seed: int


def run_study(
    sweep: Sweep,
    folder: Path,
    *,
    jobs: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> pd.DataFrame:
    """Run a sweep and keep its regrets in `folder/regret.parquet`; what is there already is not run again.

    Replicates are the outermost loop, so that an interrupted study has the same number of replicates
    everywhere, plus or minus one. Everything finished is saved when this function ends, however it ends.

    Parameters
    ----------
    sweep
        What to study.
    folder
        Where to keep the result; created if needed.
    jobs
        The number of processes. The result does not depend on it.
    on_progress
        Called with the numbers of training sets done and in total.

    Returns
    -------
    DataFrame
        The sweep's rows, with columns `d, budget, rate, n, approach, horizon, replicate, regret`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> quick = Sweep(dims=(6,), budgets=(2,), rates=(0.6,), sizes=(100,), replicates=2)
    >>> with TemporaryDirectory() as folder:
    ...     regrets = run_study(quick, Path(folder))
    >>> sorted(regrets["approach"].unique())
    ['aliasing', 'complete', 'filtering', 'restoration']
    """
    check_count("jobs", jobs, least=1)
    with _locked(folder):
        file = _RegretFile(folder / "regret.parquet", sweep.seed)
        tasks = _unfinished(sweep, file.table)
        total, done = sum(len(task.sizes) for task in tasks), 0
        on_progress(done, total)
        saved = -_SAVE_EVERY  # the first result is saved at once, so that failures to write show early
        try:
            for task, regrets in _run(tasks, jobs):
                file.unsaved += regrets
                done += len(task.sizes)
                on_progress(done, total)
                if time.monotonic() - saved > _SAVE_EVERY:
                    file.save()
                    saved = time.monotonic()
        finally:
            file.save()
    return select(file.table, sweep)


def select(table: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
    """Select the rows of a table of regrets that belong to a sweep."""
    arms = pd.MultiIndex.from_tuples(sweep.arms)
    wanted = pd.MultiIndex.from_frame(table[["d", "budget", "rate"]]).isin(arms)
    wanted &= (table["n"].isin(sweep.sizes) & (table["replicate"] < sweep.replicates)).to_numpy()
    return table[wanted].reset_index(drop=True)


def regrets_of(task: Task) -> list[Regret]:
    """Draw the training sets of a task and compute the regret of every approach and horizon on each."""
    rows = []
    for n in task.sizes:
        d, budget, rate = task.arm
        # The key is what the replicate is, so that its data depend on nothing else; SFC64 is NumPy's fastest.
        key = (task.seed, d, budget, int(np.float64(rate).view(np.uint64)), n, task.replicate)
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(key)))
        for approach, horizon, regret in _replicate(rng, task.arm, n):
            rows.append(Regret(*task.arm, n, approach, horizon or budget, task.replicate, regret))
    return rows


def _replicate(rng: np.random.Generator, arm: Arm, n: int) -> Iterator[tuple[Approach, int | None, float]]:
    """Solve one training set by every approach; counts are shared between those that use the same rows."""
    problem = _shortcut(arm.d, arm.budget)
    complete, masked = sample_bits(rng, arm.d, arm.budget, n, arm.rate)
    filtered = masked.complete()
    pooled = estimate_from(problem, masked)
    usable: dict[Approach, tuple[BitRows, Estimates]] = {
        "aliasing": (masked, pooled),
        "filtering": (filtered, estimate_from(problem, filtered)),
        "restoration": (masked, pooled),
        "complete": (complete, estimate_from(problem, complete)),
    }
    for horizon in (1, None):
        for approach, (rows, estimates) in usable.items():
            plan = plan_from(problem, estimates, rows, approach, horizon)
            yield approach, horizon, problem.regret(plan)


_shortcut = lru_cache(shortcut)


def _unfinished(sweep: Sweep, table: pd.DataFrame) -> list[Task]:
    finished = set(table.groupby(["d", "budget", "rate", "n", "replicate"]).size().index)
    tasks = []
    for replicate in range(sweep.replicates):
        for arm in sweep.arms:
            sizes = tuple(n for n in sweep.sizes if (*arm, n, replicate) not in finished)
            if sizes:
                tasks.append(Task(arm, sizes, replicate, sweep.seed))
    return tasks


def _run(tasks: list[Task], jobs: int) -> Iterator[tuple[Task, Iterable[Regret]]]:
    if jobs == 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, regrets_of(task)
        return
    # Interrupts are left to the parent process.
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)), get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)
    )
    waiting, running = iter(tasks), dict[Future[list[Regret]], Task]()
    try:
        while True:
            # A few tasks ahead of the workers: enough to keep them busy, few enough to stop at once.
            for task in islice(waiting, 4 * jobs - len(running)):
                running[pool.submit(regrets_of, task)] = task
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BrokenProcessPool as error:
        raise AscertainError(
            "a worker process died, perhaps for want of memory; what was finished is kept: "
            "run the same command again, with fewer jobs, to go on"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create a folder and hold it, one process at a time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise StoreError(f"cannot write to {folder}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreError(f"another study is running in {folder}; wait or use another folder") from error
        yield


class _RegretFile:
    """A file of regrets: one row per training set, approach and horizon, sorted."""

    def __init__(self, path: Path, seed: int):
        self.path, self.seed = path, seed
        self.unsaved: list[Regret] = []
        self.table = self._load()
        for left in leftovers(path.parent, path.suffix):  # of killed runs, as this one has the folder's lock
            if left.name.startswith(f".{path.stem}-"):
                left.unlink(missing_ok=True)

    def _load(self) -> pd.DataFrame:
        if not self.path.exists():
            return SCHEMA.empty_table().to_pandas()
        try:
            table = pq.read_table(self.path, page_checksum_verification=True)
            frame = table.to_pandas()
            about = dict(json.loads((table.schema.metadata or {}).get(_METADATA, b"{}")))
        except _UNREADABLE as error:
            raise StoreError(
                f"{self.path} cannot be read; remove it or use another folder ({error})"
            ) from error
        rows = about.get("rows", len(frame))  # 0.1 did not write it
        if not table.schema.equals(SCHEMA) or (about.get("sampler"), rows) != (_SAMPLER, len(frame)):
            raise StoreError(
                f"{self.path} is damaged, or not a result of this version of the study; use another folder"
            )
        if "seed" not in about:
            raise StoreError(f"{self.path} is damaged: it lacks its seed; remove it or use another folder")
        if about["seed"] != self.seed:
            raise StoreError(
                f"{self.path} was made with seed {about['seed']}, not {self.seed}; "
                "use that seed or another folder"
            )
        return frame

    def save(self) -> None:
        """Write everything; only then forget what is unsaved, so that an interrupted call can be repeated."""
        if not self.unsaved:
            return
        columns = zip(*self.unsaved, strict=True)
        new = pa.table([pa.array(c, t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)
        together = pd.concat([self.table, new.to_pandas()], ignore_index=True)
        together = together.sort_values(SCHEMA.names[:-1], ignore_index=True)
        table = pa.Table.from_pandas(together, SCHEMA, preserve_index=False)
        about = json.dumps({"seed": self.seed, "sampler": _SAMPLER, "rows": len(together)})
        with replacing(self.path) as temporary:
            described = table.replace_schema_metadata({_METADATA: about})
            pq.write_table(described, temporary, write_page_checksum=True)
        self.table, self.unsaved = together, []
