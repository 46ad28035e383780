"""The best fixed route: the same actions for every row, chosen on training data (V_static of section 5.3)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.effort import Effort
from ascertain._core.settings import AtOnce, Count
from ascertain._core.training import class_weights
from ascertain.errors import InputError
from ascertain.methods._registry import State, register
from ascertain.metrics import Metric, score_counts
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

_MASKS_AT_ONCE = 16
_FLOOR = -4.0  # of the log probability, as in the planner


@dataclass(frozen=True)
class Settings:
    """How many routes to compare, on how many rows, by which metric."""

    routes: AtOnce = 2000
    max_rows: Count = 4096
    # "likelihood": the log probability of the true class, where classes weigh the same. Accuracy cannot tell
    # routes apart where one class is rare.
    metric: Metric | Literal["likelihood"] = "accuracy"

    def shortened(self, effort: Effort, n_rows: int) -> "Settings":
        """Compare routes by the likelihood: nobody knows how rare the classes of a user's table are."""
        del effort, n_rows
        return replace(self, metric="likelihood")


class Static(Policy):
    """Acquires in a fixed order."""

    rank: Float[Array, " actions"]  # 0 = acquired first

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        """Score by minus the place in the order."""
        del x, observed, available, key
        scores = jnp.broadcast_to(-self.rank[None], acquired.shape)
        return jnp.concatenate([jnp.full((acquired.shape[0], 1), -jnp.inf), scores], axis=1)


@register(
    "static",
    summary="The fixed route that is best on training data.",
    settings=Settings,
    label="static route",
    kind="baseline",
    family="static",
    use_when="Everybody is to have the same tests, or to see what adapting is worth.",
)
def fit(
    key: PRNGKeyArray,
    problem: Problem,
    train: Table,
    valid: Table,
    *,
    predictor: Predictor | None = None,
    pretrained: None = None,
    settings: Settings = Settings(),
    state: State = "s",
    protocol: Protocol = PAPER,
) -> Static:
    """Compare random maximal routes on training data, and put the best one's actions in a greedy order.

    Takes what every method takes (see `Method`); the `predictor` judges the routes. Rows with holes are
    predicted from what they have of a route.
    """
    del valid, pretrained, state, protocol
    if predictor is None:
        raise InputError("routes are judged by the fixed predictor; give it with predictor=")
    drawing, choosing = jr.split(key)
    by_likelihood = settings.metric == "likelihood"
    if len(train.y) > settings.max_rows:
        chance = class_weights(train.y, problem.n_classes)[train.y] if by_likelihood else None
        train = train.take(jr.choice(choosing, len(train.y), (settings.max_rows,), replace=False, p=chance))

    def score(chosen: Bool[Array, "masks actions"]) -> Float[Array, " masks"]:
        def predict(mask: Array) -> Float[Array, "rows classes"]:
            return predictor(train.x, problem.observed(mask)[None] & train.available)

        if settings.metric == "likelihood":
            return jax.lax.map(
                lambda mask: _likelihood(predict(mask), train), chosen, batch_size=_MASKS_AT_ONCE
            )

        def count(mask: Array) -> Float[Array, "classes classes"]:
            true = jax.nn.one_hot(train.y, problem.n_classes)
            return true.T @ jax.nn.one_hot(jnp.argmax(predict(mask), axis=1), problem.n_classes)

        counts = jax.lax.map(count, chosen, batch_size=_MASKS_AT_ONCE)
        return jnp.asarray(score_counts(counts, settings.metric))

    routes = maximal_routes(drawing, problem, settings.routes)
    if by_likelihood:  # of many actions, random routes hardly ever contain the best ones
        routes = jnp.concatenate([routes, _forward_route(problem, score)[None]])
    route = routes[jnp.argmax(score(routes))]

    def add_best(carry: tuple[Array, Array, Int[Array, ""]]) -> tuple[Array, Array, Int[Array, ""]]:
        taken, rank, place = carry
        longer = taken[None] | jnp.eye(problem.n_actions, dtype=bool)
        best = jnp.argmax(jnp.where(route & ~taken, score(longer), -jnp.inf))
        return taken.at[best].set(True), rank.at[best].set(place), place + 1

    # The other actions come after the route, in the problem's order.
    last = problem.n_actions + jnp.arange(problem.n_actions)
    start = (jnp.zeros_like(route), last, jnp.asarray(0))
    _, rank, _ = jax.lax.while_loop(lambda carry: jnp.any(route & ~carry[0]), add_best, start)
    return Static(rank.astype(jnp.float32))


def _likelihood(probabilities: Float[Array, "rows classes"], table: Table) -> Float[Array, ""]:
    """The mean log probability of the true class, with a floor; classes weigh the same."""
    of_label = jnp.take_along_axis(probabilities, table.y[:, None], axis=1)[:, 0]
    weight = class_weights(table.y, table.n_classes)[table.y]
    return jnp.sum(weight * jnp.maximum(jnp.log(of_label), _FLOOR)) / jnp.sum(weight)


def _forward_route(
    problem: Problem, score: Callable[[Bool[Array, "masks actions"]], Float[Array, " masks"]]
) -> Bool[Array, " actions"]:
    """Add the action that is best beside the ones before, until the budget pays for no more."""

    def payable(taken: Bool[Array, " actions"]) -> Bool[Array, " actions"]:
        return problem.affordable(taken) & ~taken

    def add_best(taken: Bool[Array, " actions"]) -> Bool[Array, " actions"]:
        longer = taken[None] | jnp.eye(problem.n_actions, dtype=bool)
        return taken.at[jnp.argmax(jnp.where(payable(taken), score(longer), -jnp.inf))].set(True)

    nothing = jnp.zeros(problem.n_actions, bool)
    found: Array = jax.lax.while_loop(lambda taken: jnp.any(payable(taken)), add_best, nothing)
    return found


def maximal_routes(key: PRNGKeyArray, problem: Problem, n_routes: int) -> Bool[Array, "routes actions"]:
    """Random maximal routes: actions in random order, each taken if it still fits the budget."""
    orders = jnp.argsort(jr.uniform(key, (n_routes, problem.n_actions)), axis=1)

    def consider(
        carry: tuple[Array, Array], action: Int[Array, " routes"]
    ) -> tuple[tuple[Array, Array], None]:
        taken, spent = carry
        price = jnp.take_along_axis(problem.prices(taken), action[:, None], axis=1)[:, 0]
        after = spent + price
        fits = after <= problem.limit
        added = jax.nn.one_hot(action, problem.n_actions, dtype=bool) & fits[:, None]
        return (taken | added, jnp.where(fits, after, spent)), None

    nothing = (jnp.zeros(orders.shape, bool), jnp.zeros(n_routes))
    (taken, _), _ = jax.lax.scan(consider, nothing, orders.T)
    return taken
