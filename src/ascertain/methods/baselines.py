"""Policies that learn nothing: random, sequential, and to stop at once."""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain.methods.registry import State, register
from ascertain.policy import Policy
from ascertain.predictors.masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.registry import NoSettings

STOPS = "at a threshold that you give (thresholds=)"


@dataclass(frozen=True)
class Settings:
    """For soft budgets."""

    stop_probability: float = 0.0  # of stopping, at each step


class Blind(Policy):
    """Acquires whatever comes: in random order, or in the order of the actions."""

    stop_probability: Float[Array, ""]
    at_random: bool = eqx.field(static=True)

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by lot, or the lower the number the better."""
        del x, observed, available
        lots = jr.uniform(key, (acquired.shape[0], acquired.shape[1] + 1))
        in_order = jnp.broadcast_to(-jnp.arange(acquired.shape[1], dtype=jnp.float32)[None], acquired.shape)
        stop = jnp.where(lots[:, :1] < self.stop_probability, jnp.inf, -jnp.inf)
        return jnp.concatenate([stop, lots[:, 1:] if self.at_random else in_order], axis=1)

    def stopping_at(self, threshold: float) -> "Blind":
        """Stop with this probability at each step (soft budgets)."""
        return eqx.tree_at(lambda p: p.stop_probability, self, jnp.asarray(threshold, jnp.float32))


class Stop(Policy):
    """Stops at once: the prediction from nothing."""

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score stopping above everything else."""
        del x, observed, available, key
        scores = jnp.full((acquired.shape[0], acquired.shape[1] + 1), -jnp.inf)
        return scores.at[:, 0].set(jnp.inf)


@register(
    "random",
    summary="Any action, in random order.",
    label="random",
    kind="baseline",
    stops=STOPS,
    settings=Settings,
)
def fit_random(
    key: PRNGKeyArray,
    problem: Problem,
    train_table: Table,
    valid_table: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: None = None,
    settings: Settings = Settings(),  # noqa: B008
    state: State = "s",
    protocol: Protocol = PAPER,
) -> Blind:
    """Give the random policy; it learns nothing from the tables."""
    del key, problem, train_table, valid_table, predictor, pretrained, state, protocol
    return Blind(jnp.asarray(settings.stop_probability, jnp.float32), at_random=True)


@register(
    "sequential",
    summary="The actions in the order of the problem.",
    label="sequential",
    kind="baseline",
    stops=STOPS,
    settings=Settings,
)
def fit_sequential(
    key: PRNGKeyArray,
    problem: Problem,
    train_table: Table,
    valid_table: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: None = None,
    settings: Settings = Settings(),  # noqa: B008
    state: State = "s",
    protocol: Protocol = PAPER,
) -> Blind:
    """Give the sequential policy; it learns nothing from the tables."""
    del key, problem, train_table, valid_table, predictor, pretrained, state, protocol
    return Blind(jnp.asarray(settings.stop_probability, jnp.float32), at_random=False)


@register(
    "stop",
    summary="Nothing at all: the prediction without any feature.",
    label="no acquisition",
    kind="baseline",
)
def fit_stop(
    key: PRNGKeyArray,
    problem: Problem,
    train_table: Table,
    valid_table: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: None = None,
    settings: NoSettings = NoSettings(),  # noqa: B008
    state: State = "s",
    protocol: Protocol = PAPER,
) -> Stop:
    """Give the policy that stops at once."""
    del key, problem, train_table, valid_table, predictor, pretrained, settings, state, protocol
    return Stop()
