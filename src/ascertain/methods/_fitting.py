"""Fitting any method by its name, with its inputs checked first."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, PRNGKeyArray

from ascertain._core.compilation import compiled
from ascertain._core.sharding import Shards, common_mesh, computing_on, on_one_device, whole
from ascertain.acquisition import legal_actions
from ascertain.errors import InputError
from ascertain.methods._registry import State, get
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol


def fit(
    name: str,
    key: PRNGKeyArray,
    problem: Problem,
    train: Table | Shards[Table],
    valid: Table | Shards[Table],
    *,
    predictor: Predictor | None = None,
    pretrained: Any = None,
    settings: Any = None,
    state: State = "s",
    protocol: Protocol = PAPER,
) -> Policy:
    """Fit a method to one training set.

    Parameters
    ----------
    name
        One of `ascertain.methods.names()`.
    key
        The random key.
    problem
        Actions, costs and the budget.
    train, valid
        Treated data: complete, restricted (with holes) or restored. The rows of one or both may be split
        over devices (`ascertain.tables.shard`), for methods that can learn from such rows.
    predictor
        The fixed predictor; AACO and the static route need it.
    pretrained
        The result of the method's `pretrain`, to share it between fits; by default it is run.
    settings
        The method's settings; by default the paper's.
    state
        `"s"`: holes only make actions illegal. `"sm"`: the policy also sees which actions are available.
    protocol
        How to read the paper.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import jax.random as jr
    >>> import numpy as np
    >>> from ascertain import Problem, Table, methods
    >>> problem = Problem(np.eye(3), [1, 1, 1], budget=1, n_classes=2)
    >>> table = Table(np.arange(12.0).reshape(4, 3), [0, 0, 1, 1])
    >>> policy = methods.fit("sequential", jr.key(0), problem, table, table)
    >>> nothing = jnp.zeros((1, 3), bool)
    >>> scores = policy(table.x[:1], nothing, nothing, ~nothing, key=jr.key(1))
    >>> int(scores.argmax())  # 0 is to stop, 1 to acquire the first feature
    1
    """
    method = get(name)
    method.check_state(state)
    mesh = common_mesh(train, valid)
    if mesh is not None:
        method.check_splits_rows()
    for table in (train, valid):
        problem.check(table.padded if isinstance(table, Shards) else table)
    if settings is None:
        settings = method.settings()
    choices: dict[str, Any] = {
        "predictor": predictor,
        "pretrained": pretrained,
        "settings": method.completed(settings, problem, protocol),
        "state": state,
        "protocol": protocol,
    }
    plain = problem.without_names()
    _check_any_legal(plain, train, protocol)
    if mesh is None:
        fitted: Policy = compiled(method.fit)(key, plain, train, valid, **choices)
        return fitted
    with computing_on(mesh):
        split: Policy = compiled(_fit_split)(method.fit, key, plain, train, valid, **choices)
    return on_one_device(split)


def _fit_split(
    fit: Callable[..., Policy], key: PRNGKeyArray, problem: Problem, train: Any, valid: Any, **choices: Any
) -> Policy:
    """Fit to rows that are split over devices; the padding of their shares is dropped in the program."""
    return fit(key, problem, whole(train), whole(valid), **choices)


def _check_any_legal(problem: Problem, table: Table | Shards[Table], protocol: Protocol) -> None:
    """Raise where no training row supports any first acquisition."""
    if not bool(compiled(_any_legal)(problem, table, protocol)):
        raise InputError(
            "no training row supports any acquisition that the budget can pay: every row lacks some feature "
            "of each affordable action; restore the table, or raise the budget"
        )


def _any_legal(problem: Problem, table: Table | Shards[Table], protocol: Protocol) -> Bool[Array, ""]:
    available = problem.readable(whole(table).available)
    return jnp.any(legal_actions(problem, protocol, jnp.zeros_like(available), available))
