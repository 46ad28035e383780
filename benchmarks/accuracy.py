"""Scores of all nine policy variants on complete, restricted and restored data (section 5.2).

    python benchmarks/accuracy.py --datasets cube,heart_disease --out accuracy.parquet

Five splits and three treatments of one missingness setting, 15 replicates of each policy in one program; on
complete validation rows, as the paper does. Programs are compiled in threads while others run. Written for a
GPU: on two processor cores it takes hours.
"""

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import pandas as pd
from programs import Program, join, stack

import ascertain
from ascertain import evaluation, methods
from ascertain import predictor as predictors
from ascertain.datasets import Dataset
from ascertain.missingness import MECHANISMS, mask_tables
from ascertain.protocol import Protocol, protocol
from ascertain.restoration import PVAERestorer, pvae
from ascertain.restoration.restorer import restore

TREATMENTS = ("complete", "restricted", "restored")
VARIANTS = [(name, "s") for name in ("aaco", "dime", "gdfs", "static", "random")] + [
    (name, state) for name in ("jafa", "ol", "odin") for state in ("s", "sm")
]


class Run:
    """One dataset: its programs, traced when made, and their run."""

    def __init__(self, pool: ThreadPoolExecutor, dataset: Dataset, reading: Protocol, arguments: Any):
        self.dataset, self.reading = dataset, reading
        self.problem = dataset.problem.without_names()
        self.n_splits = arguments.splits
        splits = [dataset.split(index, reading) for index in range(self.n_splits)]
        self.train, self.valid = stack([s.train for s in splits]), stack([s.valid for s in splits])
        self.keys = jax.vmap(jr.key)(jnp.arange(self.n_splits))
        mechanism = MECHANISMS[arguments.mechanism]
        masked = [
            mask_tables(jr.fold_in(key, 1), mechanism, self.problem, split.train, split.valid, arguments.rate)
            for key, split in zip(self.keys, splits, strict=True)
        ]
        self.masked_train, self.masked_valid = (stack(list(part)) for part in zip(*masked, strict=True))
        self._trace(pool, [v for v in VARIANTS if v[0] in arguments.methods])

    def _trace(self, pool: ThreadPoolExecutor, variants: list[tuple[str, Any]]) -> None:
        problem, name = self.problem, self.dataset.name
        of_predictor, of_vae = predictors.settings_for(name), pvae.settings_for(name)

        def fit_predictor(key: Any, train: Any, valid: Any) -> Any:
            return predictors.fit_predictor(key, problem, train, valid, of_predictor)

        def fit_vae(key: Any, train: Any, valid: Any) -> Any:
            return pvae.fit_pvae(key, problem, train, valid, of_vae)

        self.predictor = Program(pool, jax.vmap(fit_predictor), self.keys, self.train, self.valid)
        twice = join(self.keys, self.keys), join(self.train, self.train), join(self.valid, self.valid)
        self.vae = Program(pool, jax.vmap(fit_vae), *twice)  # incomplete and complete data; restored data
        self.all_keys = jax.vmap(lambda key: jr.fold_in(key, 2))(join(*[self.keys] * 3))
        tables = join(*[self.train] * 3), join(*[self.valid] * 3)
        fixed = jax.tree.map(_widen(3), self.predictor.result)
        vaes = jax.tree.map(_widen(1.5), self.vae.result)
        self.pretrainings: dict[str, Program] = {}
        self.fits: dict[tuple[str, str], Program] = {}
        for method, state in variants:
            given = vaes if method == "odin" else None
            if method in ("jafa", "ol"):
                if method not in self.pretrainings:
                    pretrain = _pretrainer(method, problem, self.reading, name)
                    self.pretrainings[method] = Program(pool, jax.vmap(pretrain), self.all_keys, *tables)
                given = self.pretrainings[method].result
            fit = _fitter(method, state, self.dataset, self.reading)
            self.fits[method, state] = Program(
                pool, jax.vmap(fit), self.all_keys, *tables, tables[1], fixed, given
            )

    def programs(self) -> dict[str, Program]:
        """Give all programs by name."""
        fits = {f"{method} ({state})": program for (method, state), program in self.fits.items()}
        pretrainings = {f"{method} before": program for method, program in self.pretrainings.items()}
        return {"predictor": self.predictor, "pvae": self.vae, **pretrainings, **fits}

    def run(self) -> Iterator[pd.DataFrame]:
        """Run everything; one row per policy, replicate and budget, policy by policy."""
        predictor = self.predictor(self.keys, self.train, self.valid)
        n = self.n_splits
        both = join(self.masked_train, self.train), join(self.masked_valid, self.valid)
        vaes = self.vae(join(self.keys, self.keys), *both)
        incomplete = jax.tree.map(lambda leaf: leaf[:n], vaes)
        draw = jax.jit(jax.vmap(lambda key, vae, table: restore(key, PVAERestorer(vae), table)))
        drawing = jax.vmap(lambda key: jr.split(jr.fold_in(key, 3)))(self.keys)
        restored = (
            draw(drawing[:, 0], incomplete, self.masked_train),
            draw(drawing[:, 1], incomplete, self.masked_valid),
        )
        again = self.vae(join(self.keys, self.keys), *(join(part, part) for part in restored))
        # Each treatment's ODIN sees through the VAE of its own data.
        all_vaes = join(jax.tree.map(lambda leaf: leaf[n:], vaes), incomplete)
        all_vaes = join(all_vaes, jax.tree.map(lambda leaf: leaf[:n], again))
        train = join(self.train, self.masked_train, restored[0])
        valid = join(self.valid, self.masked_valid, restored[1])
        scored = join(*[self.valid] * 3)
        fixed = join(*[predictor] * 3)
        pretrained = {
            name: program(self.all_keys, train, valid) for name, program in self.pretrainings.items()
        }
        for (method, state), program in self.fits.items():
            given = all_vaes if method == "odin" else pretrained.get(method)
            reached, probabilities = program(self.all_keys, train, valid, scored, fixed, given)
            yield self._scores(method, state, reached, probabilities)

    def _scores(self, method: str, state: str, reached: Any, probabilities: Any) -> pd.DataFrame:
        frames = []
        for replicate in range(3 * self.n_splits):
            one = jax.tree.map(lambda leaf, i=replicate: leaf[i], reached)
            split = replicate % self.n_splits
            frame = evaluation.scores(one, probabilities[replicate], self.valid.y[split])
            frame.insert(0, "budget", self.dataset.budgets)
            treatment = TREATMENTS[replicate // self.n_splits]
            identity = (self.dataset.name, method, state, treatment, split)
            for place, (column, value) in enumerate(
                zip(("dataset", "method", "state", "treatment", "split"), identity, strict=True)
            ):
                frame.insert(place, column, value)
            frame["score"] = frame["accuracy" if self.dataset.metric == "accuracy" else "f1"]
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)


def _widen(times: float) -> Any:
    return lambda leaf: jax.ShapeDtypeStruct((int(times * leaf.shape[0]), *leaf.shape[1:]), leaf.dtype)


def _pretrainer(name: str, problem: Any, reading: Protocol, dataset: str) -> Any:
    method = methods.get(name)
    settings = method.settings_for(problem, reading, dataset)
    before: Any = method.pretrain

    def pretrain(key: Any, train: Any, valid: Any) -> Any:
        return before(key, problem, train, valid, settings=settings, protocol=reading)

    return pretrain


def _fitter(name: str, state: str, dataset: Dataset, reading: Protocol) -> Any:
    method, problem = methods.get(name), dataset.problem.without_names()
    settings = method.settings_for(problem, reading, dataset.name)
    budgets = jnp.asarray(dataset.budgets, jnp.float32)
    n_steps = evaluation.most_steps(problem, dataset.budgets)
    separate = evaluation.needs_separate_rollouts(problem, reading)

    def fit(key: Any, train: Any, valid: Any, scored: Any, predictor: Any, pretrained: Any) -> Any:
        fitting, acting = jr.split(key)
        policy = method.fit(
            fitting,
            problem,
            train,
            valid,
            predictor=predictor,
            pretrained=pretrained,
            settings=settings,
            state=state,
            protocol=reading,
        )
        return evaluation.curve(
            acting,
            policy,
            problem,
            scored,
            predictor,
            budgets,
            protocol=reading,
            n_steps=n_steps,
            separate=separate,
        )

    return fit


def show(frame: pd.DataFrame) -> None:
    """Print mean and standard error over splits at the largest budget, and damage and gain by method."""
    last = frame[frame["budget"] == frame.groupby("dataset")["budget"].transform("max")]
    keys = ["dataset", "method", "state", "treatment"]
    table = last.groupby(keys)["score"].agg(["mean", "sem"]).unstack("treatment")
    with pd.option_context("display.width", 200, "display.max_rows", None, "display.precision", 3):
        print(table)
        wide = last.groupby(["method", "dataset", "treatment"])["score"].mean().unstack("treatment")
        wide["damage"], wide["gain"] = wide.complete - wide.restricted, wide.restored - wide.restricted
        print(wide.groupby("method").mean().sort_values("damage", ascending=False))
        print(wide.groupby("dataset")["damage"].mean().sort_values(ascending=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", default="cube,cube_nm,cube_nuc,actg175,heart_disease")
    parser.add_argument("--methods", default=",".join(dict.fromkeys(name for name, _ in VARIANTS)))
    parser.add_argument("--protocol", default="afabench")
    parser.add_argument("--mechanism", default="mcar", choices=sorted(MECHANISMS))
    parser.add_argument("--rate", type=float, default=0.7)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--threads", type=int, default=16, help="programs compiled at the same time")
    parser.add_argument("--out", default="accuracy.parquet")
    arguments = parser.parse_args()
    arguments.methods = arguments.methods.split(",")
    start = time.perf_counter()
    frames = []
    with ThreadPoolExecutor(arguments.threads) as pool:
        reading = protocol(arguments.protocol)
        runs = [Run(pool, ascertain.load(name), reading, arguments) for name in arguments.datasets.split(",")]
        print(f"traced after {time.perf_counter() - start:.0f} s", flush=True)
        for run in runs:
            for frame in run.run():
                frames.append(frame)
                pd.concat(frames, ignore_index=True).to_parquet(arguments.out)
            for what, program in run.programs().items():
                seconds = f"compile {program.compile_s:5.1f} s, run {program.run_s:6.2f} s"
                print(f"{run.dataset.name:14} {what:14} {seconds}")
            print(f"{run.dataset.name} done after {time.perf_counter() - start:.0f} s", flush=True)
    show(pd.concat(frames, ignore_index=True))


if __name__ == "__main__":
    main()
