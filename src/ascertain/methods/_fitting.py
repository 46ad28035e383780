"""Fitting any method by its name, with its inputs checked first."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ascertain._core.compilation import compiled
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
    train: Table,
    valid: Table,
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
        Treated data: complete, restricted (with holes) or restored.
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
    problem.check(train)
    problem.check(valid)
    _check_any_legal(problem, train, protocol)
    if settings is None:
        settings = method.settings()
    fitted: Policy = compiled(method.fit)(
        key,
        problem.without_names(),
        train,
        valid,
        predictor=predictor,
        pretrained=pretrained,
        settings=method.completed(settings, problem, protocol),
        state=state,
        protocol=protocol,
    )
    return fitted


def _check_any_legal(problem: Problem, table: Table, protocol: Protocol) -> None:
    """Raise where no training row supports any first acquisition."""
    available = problem.readable(table.available)
    legal = legal_actions(problem, protocol, jnp.zeros_like(available), available)
    if not bool(np.asarray(legal).any()):
        raise InputError(
            "no training row supports any acquisition that the budget can pay: every row lacks some feature "
            "of each affordable action; restore the table, or raise the budget"
        )
