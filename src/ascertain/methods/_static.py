"""The best fixed route: the same actions for every row, chosen on training data (V_static of section 5.3)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from ascertain._core.settings import Count
from ascertain.errors import InputError
from ascertain.methods._registry import State, register
from ascertain.metrics import Metric, score_counts
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

_MASKS_AT_ONCE = 16


@dataclass(frozen=True)
class Settings:
    """How many routes to compare, on how many rows, by which metric."""

    routes: Count = 2000
    max_rows: Count = 4096
    metric: Metric = "accuracy"


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
    n_rows = len(train.y)
    if n_rows > settings.max_rows:
        train = train.take(jr.choice(choosing, n_rows, (settings.max_rows,), replace=False))

    def score(chosen: Bool[Array, "masks actions"]) -> Float[Array, " masks"]:
        def count(mask: Array) -> Float[Array, "classes classes"]:
            seen = problem.observed(mask)[None] & train.available
            predicted = jnp.argmax(predictor(train.x, seen), axis=1)
            true = jax.nn.one_hot(train.y, problem.n_classes)
            return true.T @ jax.nn.one_hot(predicted, problem.n_classes)

        counts = jax.lax.map(count, chosen, batch_size=_MASKS_AT_ONCE)
        return jnp.asarray(score_counts(counts, settings.metric))

    routes = maximal_routes(drawing, problem, settings.routes)
    route = routes[jnp.argmax(score(routes))]

    def add_best(carry: tuple[Array, Array, Int[Array, ""]]) -> tuple[Array, Array, Int[Array, ""]]:
        taken, rank, place = carry
        longer = taken[None] | jnp.eye(problem.n_actions, dtype=bool)
        best = jnp.argmax(jnp.where(route & ~taken, score(longer), -1.0))
        return taken.at[best].set(True), rank.at[best].set(place), place + 1

    # The other actions come after the route, in the problem's order.
    last = problem.n_actions + jnp.arange(problem.n_actions)
    start = (jnp.zeros_like(route), last, jnp.asarray(0))
    _, rank, _ = jax.lax.while_loop(lambda carry: jnp.any(route & ~carry[0]), add_best, start)
    return Static(rank.astype(jnp.float32))


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
