"""Seconds and memory to train each method at the paper's settings, pretraining included.

    python benchmarks/methods.py                                            # CUBE, one replicate
    python benchmarks/methods.py --dataset cube_nm --replicates 125         # on a GPU
    python benchmarks/methods.py --methods ol --replicates 1,5,25,125       # cost against replicates
    python benchmarks/methods.py --methods gdfs --rows 600,80000 --features 20,120   # simulated tables

One program at a time, so that compile times are each program's own. ODIN's Partial VAE is not trained here
(benchmarks/data.py measures it): its cost does not depend on the weights.
"""

import argparse
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from programs import Program

import ascertain
from ascertain import Problem, Table, methods
from ascertain._core.compilation import replicated
from ascertain._core.networks import MLP
from ascertain.datasets import Dataset
from ascertain.evaluation._rollouts import most_steps
from ascertain.predictors._masked_mlp import MaskedMLP
from ascertain.protocol import Protocol, protocol
from ascertain.recipe._presets import method_settings
from ascertain.restoration import _pvae as pvae


def simulated(n_rows: int, n_features: int) -> tuple[Problem, Table, Table]:
    """Make a table of Gaussian features of which a few decide the class; unit costs, a budget of 10."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_rows + 200, n_features)).astype(np.float32)
    y = (x[:, :3] > 0) @ np.array([1, 2, 4])
    problem = Problem(np.eye(n_features), np.ones(n_features), min(10, n_features), 8)
    return problem, Table(x[:-200], y[:-200], n_classes=8), Table(x[-200:], y[-200:], n_classes=8)


def measure(
    name: str,
    state: Any,
    case: tuple[Problem, Table, Table, Dataset | None],
    reading: Protocol,
    replicates: int,
) -> dict[str, float]:
    """Pretrain, fit and act with some replicates at once; total times and memory."""
    problem, train, valid, dataset = case
    method = methods.get(name)
    if dataset is None:
        settings = method.completed(method.settings(), problem, reading)
    else:
        settings = method_settings(name, dataset, reading)
    keys = jr.split(jr.key(0), replicates)
    trains, valids = (
        jax.tree.map(lambda leaf: jnp.repeat(leaf[None], replicates, axis=0), table)
        for table in (train, valid)
    )
    predictor = MaskedMLP(MLP((2 * problem.n_features, 128, 128, problem.n_classes), key=jr.key(1)))
    used = []

    def run(function: Any, *arguments: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            used.append(Program(pool, replicated(function), *arguments))
            return used[-1](*arguments)

    pretrained = None
    if name == "odin":
        pretrained = jax.jit(
            jax.vmap(lambda key: pvae.PVAE(problem.n_features, problem.n_classes, settings.vae, key=key))
        )(keys)
    elif method.pretrain is not None:
        pretrain = method.pretrain
        pretrained = run(
            lambda key, t, v: pretrain(key, problem, t, v, settings=settings, protocol=reading),
            keys,
            trains,
            valids,
        )

    def fit(key: Any, t: Any, v: Any, given: Any) -> Any:
        return method.fit(
            key,
            problem,
            t,
            v,
            predictor=predictor,
            pretrained=given,
            settings=settings,
            state=state,
            protocol=reading,
        )

    policy = run(fit, keys, trains, valids, pretrained)
    n_steps = most_steps(problem, [float(problem.budget)])

    def act(key: Any, fitted: Any, v: Any) -> Any:
        return ascertain.acquisition.acquire(key, fitted, problem, v, reading, n_steps).choices

    run(act, keys, policy, valids)
    return {
        "compile": sum(program.compile_s for program in used),
        "run": sum(program.run_s for program in used),
        "cpu": sum(program.cpu_s for program in used),
        "acting": used[-1].run_s,
        "gb": max(program.temporary_gb for program in used),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="cube")
    parser.add_argument("--methods", default="gdfs,dime,aaco,jafa,ol,odin")
    parser.add_argument("--states", default="s", help="s, sm, or s,sm for those methods that have both")
    parser.add_argument("--protocol", default="afabench")
    parser.add_argument("--replicates", default="1")
    parser.add_argument("--rows", default="", help="of simulated tables, instead of a dataset")
    parser.add_argument("--features", default="", help="of simulated tables, instead of a dataset")
    arguments = parser.parse_args()
    reading = protocol(arguments.protocol)
    cases: dict[str, tuple[Problem, Table, Table, Dataset | None]]
    widths = [int(width) for width in arguments.replicates.split(",")]
    if arguments.rows or arguments.features:
        shapes = itertools.product(
            (arguments.rows or "600").split(","), (arguments.features or "20").split(",")
        )
        cases = {f"{n} x {d}": (*simulated(int(n), int(d)), None) for n, d in shapes}
    else:
        dataset = ascertain.load(arguments.dataset)
        train, valid, _ = dataset.split(0, reading)
        cases = {dataset.name: (dataset.problem.without_names(), train, valid, dataset)}
    print(f"{jax.devices()[0].device_kind}, {reading.name}; seconds", flush=True)
    for name, (label, case), width in itertools.product(arguments.methods.split(","), cases.items(), widths):
        for state in arguments.states.split(","):
            if state not in methods.get(name).states:
                continue
            found = measure(name, state, case, reading, width)
            print(
                f"{name:5} ({state:2}) {label:12} {width:4} replicates: compile {found['compile']:6.1f}, "
                f"run {found['run']:7.2f} ({width / found['run']:7.2f}/s), processor {found['cpu']:7.2f}, "
                f"of it acting {found['acting']:6.2f}, temporary memory {found['gb']:6.2f} GB",
                flush=True,
            )
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    if peak is not None:
        print(f"peak memory of the device {peak / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
