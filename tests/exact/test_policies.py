"""Exact values of policies, against hand computations, expectations and rollouts; and plans as policies."""

from fractions import Fraction
from functools import cache

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from ascertain import AFABENCH, PAPER, InputError, Problem, Protocol, Table, TooLargeError
from ascertain.acquisition import acquire, choose
from ascertain.exact import (
    APPROACHES,
    Atoms,
    FiniteProblem,
    Observations,
    Plan,
    TrueDistribution,
    fit_plan,
    optimal_policy,
    plan_of,
    plan_policy,
    problem_of,
    shortcut,
    table_of,
)
from ascertain.exact._policies import plan_from_scores, state_rows
from ascertain.methods._baselines import Blind, Stop
from ascertain.policy import Policy

BOTH = pytest.mark.parametrize("protocol", [PAPER, AFABENCH], ids=lambda p: p.name)
WORLD = shortcut(d=6, budget=2)
INF = float("inf")


class Ordered(Policy):
    """Prefers the same choices in every state."""

    order: Float[Array, " choices"]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        return jnp.broadcast_to(self.order[None], (x.shape[0], len(self.order)))


class Adaptive(Policy):
    """Scores by an arbitrary function of the observed values; also to stop."""

    weights: Float[Array, "inputs choices"]

    def __call__(
        self,
        x: Float[Array, "instances features"],
        observed: Bool[Array, "instances features"],
        acquired: Bool[Array, "instances actions"],
        available: Bool[Array, "instances actions"],
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "instances choices"]:
        inputs = [jnp.where(observed, x + 1.0, 0.0), observed, acquired, available]
        scores = jnp.sin(7.0 * jnp.concatenate(inputs, axis=1) @ self.weights)
        return scores.at[:, 0].add(-0.5)  # not to stop too often


def prefers(*names: str | None) -> Ordered:
    """Prefer what is named, in this order (None = to stop), and then the rest as it comes."""
    places = [0 if name is None else 1 + WORLD.feature(name) for name in names]
    places += [place for place in range(7) if place not in places]
    return Ordered(jnp.asarray(-np.argsort(places), jnp.float32))


def random_world(seed: int) -> FiniteProblem:
    """Draw a problem with unequal costs, of which the budget pays for some but never all."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(48, 0.3)).reshape(2, 3, 2, 2, 2)
    return FiniteProblem(joint, costs=[0.5, 0.5, 1.0, 1.5], budget=2.0)


def test_a_finite_problem_becomes_a_problem_with_one_action_per_feature() -> None:
    problem = problem_of(WORLD)
    np.testing.assert_array_equal(problem.reveals, np.eye(6, dtype=bool))
    assert problem.costs.tolist() == [1, 1, 1, 2, 1, 1]
    assert float(problem.budget) == 2
    assert problem.n_classes == 2
    assert problem.action_names == problem.feature_names == WORLD.feature_names
    assert problem.class_names == WORLD.label_names


def test_observations_become_a_table_with_holes() -> None:
    nan = float("nan")
    observations = Observations([[0.0, 1, 1, 0, 1, 1], [1, nan, 1, 1, 1, 0]], [0, 0])
    hidden = Observations(observations.x, [0, 0], observations.available & (np.arange(6) != 2))
    table = table_of(WORLD, hidden)
    assert table.x.tolist() == [[0, 1, 0, 0, 1, 1], [1, 0, 0, 1, 1, 0]]
    np.testing.assert_array_equal(table.available, hidden.available)
    assert table.n_classes == 2  # although no row has the second label


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[0, 0, 2, 0, 0, 0]], [0], r"x\[0, 2\] is 2, but 'branch1.1' has 2 values"),
        ([[0, 0, 0, 0, 0, 0]], [2], r"y\[0\] is 2, outside the classes 0 to 1"),
        ([[0, 0]], [0], "x has 2 columns, but the problem has 6 features"),
    ],
)
def test_observations_of_another_problem_are_refused(x: object, y: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        table_of(WORLD, Observations(x, y))  # type: ignore[arg-type]


def test_states_as_rows_hide_what_is_not_acquired() -> None:
    x, acquired = state_rows(WORLD)
    state = WORLD.state({"context": 1, "noise2": 0})
    assert x[state].tolist() == [1, 0, 0, 0, 0, 0]
    assert np.flatnonzero(acquired[state]).tolist() == [0, 5]
    assert not acquired[0].any()


# The context and one fixed branch: right if that branch counts (1/2), a guess otherwise: 3/4 in all.
# A single branch bit, too: it counts in 1/2. Context and noise, or nothing: a guess.
@pytest.mark.parametrize(
    ("policy", "paper", "afabench"),
    [
        (prefers("context", "branch0.1"), 0.75, 0.75),
        (prefers("branch1.1", "branch0.1"), 0.75, 0.75),
        (prefers("shortcut"), 0.75, 0.75),
        (prefers("context", "noise1"), 0.5, 0.5),
        (prefers("branch1.1", None), 0.75, 0.75),
        (prefers(None), 0.5, 0.5),
        (Stop(), 0.5, 0.5),
        # The shortcut does not fit after the context: go on with the next, or stop.
        (prefers("context", "shortcut", "branch0.1"), 0.75, 0.5),
        # The score of stopping loses to what cannot be paid only where budgets are not seen.
        (prefers("branch0.1", "shortcut", None), 0.75, 0.75),
        (prefers("noise1", "shortcut", "branch0.1"), 0.75, 0.5),
        # Scores of minus infinity do not keep a policy that never stops from acquiring what is legal.
        (Ordered(jnp.full(7, -INF)), 0.75, 0.75),
    ],
)
def test_values_by_hand(policy: Policy, paper: float, afabench: float) -> None:
    assert WORLD.value(plan_of(WORLD, policy, protocol=PAPER)) == paper
    assert WORLD.value(plan_of(WORLD, policy, protocol=AFABENCH)) == afabench
    assert WORLD.regret(plan_of(WORLD, policy)) == 1 - paper


def test_the_plan_of_a_policy_says_what_it_does() -> None:
    plan = plan_of(WORLD, prefers("context", "branch1.1", None))
    assert plan.first_action == "context"
    assert plan({"context": 0}) == plan({"context": 1}) == "branch1.1"
    assert plan({"context": 0, "branch1.1": 1}) is None
    assert plan_of(WORLD, prefers("noise1", "shortcut"), protocol=AFABENCH)({"noise1": 0}) is None


def test_bad_scores_are_refused() -> None:
    scores = np.zeros((len(WORLD.space), 7))
    scores[3, 1] = np.nan
    with pytest.raises(InputError, match=r"scores\[3, 1\] is NaN"):
        plan_from_scores(WORLD, scores)
    with pytest.raises(InputError, match=r"shape \(53, 6\); with a row per state it would be \(53, 7\)"):
        plan_from_scores(WORLD, scores[:, 1:])


def test_the_mean_over_keys_is_the_value_of_a_policy_that_is_random() -> None:
    @cache
    def expected(state: int) -> Fraction:
        """Compute the accuracy of random acquisition, times the probability of the state."""
        edges = WORLD.space.edges(state)
        if not edges:
            return Fraction(WORLD.mass[state, WORLD.prediction[state]])
        return sum((expected(int(s)) for e in edges for s in WORLD.space.children[e]), Fraction()) / len(
            edges
        )

    policy, draws = Blind(jnp.asarray(0.0), at_random=True), 100
    values = [WORLD.value(plan_of(WORLD, policy, key=key)) for key in jr.split(jr.key(0), draws)]
    error = np.std(values, ddof=1) / draws**0.5
    assert 0 < error < 0.03
    assert abs(np.mean(values) - float(expected(0))) < 4 * error  # beyond with probability 6e-5


def adaptive(seed: int) -> Adaptive:
    return Adaptive(jr.normal(jr.key(seed), (16, 5)))


@BOTH
def test_rollouts_on_drawn_rows_agree_with_the_exact_value(protocol: Protocol) -> None:
    n = 20_480

    @eqx.filter_jit
    def accuracy(policy: Policy, problem: Problem, table: Table, truth: TrueDistribution) -> Array:
        episodes = acquire(jr.key(0), policy, problem, table, protocol, n_steps=4)
        observed = problem.observed(episodes.acquired(4)[-1])
        return jnp.mean(jnp.argmax(truth(table.x, observed), axis=1) == table.y)

    values = []
    for seed in range(6):
        world = random_world(seed)
        table = table_of(world, world.sample(seed, n))
        found = accuracy(adaptive(seed), problem_of(world), table, TrueDistribution(world))
        value = world.value(plan_of(world, adaptive(seed), protocol=protocol))
        # Within 4.5 binomial standard errors: beyond with probability 7e-6, times 12 comparisons.
        assert abs(float(found) - value) < 4.5 * (value * (1 - value) / n) ** 0.5
        values.append(value)
    assert len(set(values)) == 6


def test_the_protocols_differ_for_policies_that_do_not_see_the_budget() -> None:
    worlds = {seed: random_world(seed) for seed in range(6)}
    paper = [world.value(plan_of(world, adaptive(seed))) for seed, world in worlds.items()]
    afabench = [
        world.value(plan_of(world, adaptive(seed), protocol=AFABENCH)) for seed, world in worlds.items()
    ]
    assert sum(a != b for a, b in zip(paper, afabench, strict=True)) >= 2


# Plans as policies: the same decisions in every state, on any table, compiled once.


def mixed_world(seed: int) -> FiniteProblem:
    """Draw a problem with mixed numbers of values, three labels and unequal costs, some of them zero."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(36, 0.2)).reshape(2, 3, 2, 3)
    costs = rng.choice([0.0, 0.5, 1.0, 1.75], 3)
    return FiniteProblem(joint, costs=costs, budget=[1.0, 1.75, 2.5][seed % 3] + costs.min())


@BOTH
def test_a_plan_as_a_policy_decides_as_the_plan(protocol: Protocol) -> None:
    regrets = []
    for seed in range(5):
        world = mixed_world(seed)
        observations = world.sample(seed, n=12, rate=0.4)  # few, so that plans are bad
        for approach in APPROACHES:
            plan = fit_plan(world, observations, approach)
            again = plan_of(world, plan_policy(plan), protocol=protocol)
            assert [again.edge(s) for s in range(len(world.space))] == [
                plan.edge(s) for s in range(len(world.space))
            ]
            assert world.regret(plan_of(world, plan_policy(plan), protocol=protocol)) == world.regret(plan)
            regrets.append(world.regret(plan))
    assert sum(regret > 0 for regret in regrets) > 5


@BOTH
def test_the_optimum_has_no_regret(protocol: Protocol) -> None:
    for seed in range(8):
        world = mixed_world(seed)
        policy = optimal_policy(world)
        assert world.regret(plan_of(world, policy, protocol=protocol)) == 0
        assert world.value(plan_of(world, policy)) == world.value(world.optimal_plan())


def test_close_action_values_are_told_apart_as_the_plan_does() -> None:
    # Four features of cost 1 and a budget of 1: single precision cannot tell these values apart, and the
    # plan does not either where they differ by less than 1e-12.
    world = FiniteProblem(np.full((2, 2, 2, 2, 2), 1 / 32), budget=1)
    for values, choice in (
        ([0.75, 0.75 + 1e-9, 0.75, 0.75], 1),
        ([0.75, 0.75 + 1e-13, 0.75, 0.75], 0),
        ([0.5 + 1e-13, 0.5, 0.5, 0.5], None),
        ([0.5, 0.5, 0.5, 0.5 + 1e-9], 3),
    ):
        plan = Plan(world, np.array(values), np.full(len(world.space), 0.5))
        assert plan.edge(0) == choice
        assert plan_of(world, plan_policy(plan)).edge(0) == choice


def test_rollouts_acquire_the_context_and_the_branch_that_it_names() -> None:
    problem = problem_of(WORLD)
    table = table_of(WORLD, WORLD.sample(0, n=50))
    episodes = acquire(jr.key(0), optimal_policy(WORLD), problem, table, PAPER, n_steps=3)
    context = np.asarray(table.x[:, 0]).astype(int)
    np.testing.assert_array_equal(episodes.choices, np.column_stack([np.ones(50), 2 + context, np.zeros(50)]))


def test_only_observed_cells_are_looked_at_and_values_are_rounded() -> None:
    policy = optimal_policy(WORLD)
    observed = jnp.zeros((3, 6), bool).at[:, 0].set(True)
    x = jnp.array([[1.0, 0, 0, 0, 0, 0], [0.6, np.nan, 9, 9, 9, 9], [4.0, -1, 1, 0, 1, 1]])
    scores = policy(x, observed, observed, ~observed, key=jr.key(0))
    assert scores.argmax(axis=1).tolist() == [3, 3, 3]  # the second branch
    np.testing.assert_array_equal(scores[1:], scores[:2])


def test_a_row_that_lacks_the_best_feature_goes_on_with_the_next_best() -> None:
    # Without the context, a branch bit or the shortcut is right three times in four; the first one counts.
    policy = optimal_policy(WORLD)
    nothing = jnp.zeros((1, 6), bool)
    scores = policy(jnp.zeros((1, 6)), nothing, nothing, ~nothing, key=jr.key(0))
    assert choose(scores, ~nothing).tolist() == [1]
    assert choose(scores, (~nothing).at[0, 0].set(False)).tolist() == [2]
    assert choose(scores, (~nothing).at[0, :3].set(False)).tolist() == [4]


def test_a_row_with_more_than_the_budget_stops() -> None:
    everything = jnp.ones((1, 6), bool)
    scores = optimal_policy(WORLD)(jnp.zeros((1, 6)), everything, everything, everything, key=jr.key(0))
    assert scores.tolist() == [[np.inf] + [-np.inf] * 6]


def test_one_program_serves_all_problems_of_a_shape() -> None:
    traces = []

    @eqx.filter_jit
    def ask(policy: eqx.Module, x: jnp.ndarray, observed: jnp.ndarray) -> jnp.ndarray:
        traces.append(1)
        return policy(x, observed, observed, observed, key=jr.key(0))  # type: ignore[operator]

    joints = np.random.default_rng(0).dirichlet(np.ones(8), 2).reshape(2, 2, 2, 2)
    found = []
    for joint in joints:
        world = FiniteProblem(joint, budget=1, costs=[0.5, 0.75])
        found.append(ask(optimal_policy(world), jnp.zeros((1, 2)), jnp.zeros((1, 2), bool)))
    assert len(traces) == 1
    assert found[0].tolist() != found[1].tolist()


def test_what_cannot_be_solved_has_no_optimum() -> None:
    rows = np.zeros((2, 40), int)
    atoms = Atoms(rows, np.array([0, 1]), np.full(2, 0.5), (2,) * 40, 2)
    with pytest.raises(TooLargeError, match="states within its budget"):
        optimal_policy(FiniteProblem(atoms, budget=20))
