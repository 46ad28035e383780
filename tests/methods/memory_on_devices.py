"""Compile a method for a large table on eight devices, and print what one device needs, in bytes, as JSON.

Nothing is run, and no table is made: the compiler knows the sizes of all arrays. Needs eight virtual devices:

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python memory_on_devices.py NAME ROWS [direct]
"""

import json
import re
import sys
from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

from ascertain import PAPER, Problem, Table, methods
from ascertain._core.compilation import compiler_options
from ascertain._core.sharding import Shards, by_rows, computing_on, padded_size, row_mesh
from ascertain.methods._fitting import _fit_split

FEATURES, BUDGET, VALID_ROWS = 40, 10, 20_000
MESH = row_mesh()


def described(rows: int) -> Shards[Table]:
    """A table of which there are only shapes."""
    one = Table(np.zeros((1, FEATURES)), [0], n_classes=2)
    size = padded_size(rows, MESH)

    def sized(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct((size, *leaf.shape[1:]), leaf.dtype, sharding=by_rows(MESH))

    return Shards(jax.tree.map(sized, one), rows, MESH)


def main(name: str, rows: int, *more: str) -> None:
    method = methods.get(name)
    problem = Problem(np.eye(FEATURES), np.ones(FEATURES), BUDGET, 2).without_names()
    settings = method.treating(method.settings(), "direct" if "direct" in more else "restricted")
    settings = method.completed(settings, problem, PAPER)
    train, valid = described(rows), described(VALID_ROWS)

    def fit(key: Any, problem: Problem, train: Any, valid: Any) -> Any:
        policy = _fit_split(method.fit, key, problem, train, valid, settings=settings, protocol=PAPER)
        return eqx.filter(policy, eqx.is_array)

    with computing_on(MESH):
        program = jax.jit(fit).lower(jr.key(0), problem, train, valid).compile(compiler_options())
    found, text = program.memory_analysis(), program.as_text()
    assert found is not None
    assert text is not None
    gathered = [
        [int(size) for size in shape.split(",") if size]
        for shape in re.findall(r"\[([0-9,]*)\]\S* all-(?:gather|to-all)\(", text)
    ]
    table = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves((train.padded, valid.padded)))
    print(
        json.dumps(
            {
                "table": table,
                "arguments": found.argument_size_in_bytes,
                "temporary": found.temp_size_in_bytes,
                "results": found.output_size_in_bytes,
                "largest_gathered": max((int(np.prod(shape)) for shape in gathered), default=0),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
