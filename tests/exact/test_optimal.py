"""Plans as policies: the same decisions in every state, on any table, compiled once."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from ascertain import AFABENCH, PAPER, Protocol, TooLargeError
from ascertain.acquisition import acquire, choose
from ascertain.exact import APPROACHES, Atoms, FiniteProblem, Plan, fit_plan, shortcut
from ascertain.exact.learned import plan_of, policy_regret, policy_value, problem_of, table_of
from ascertain.exact.optimal import optimal_policy, plan_policy

BOTH = pytest.mark.parametrize("protocol", [PAPER, AFABENCH], ids=lambda p: p.name)
WORLD = shortcut(d=6, budget=2)


def random_world(seed: int) -> FiniteProblem:
    """Draw a problem with mixed numbers of values, three labels and unequal costs, some of them zero."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(36, 0.2)).reshape(2, 3, 2, 3)
    costs = rng.choice([0.0, 0.5, 1.0, 1.75], 3)
    return FiniteProblem(joint, costs=costs, budget=[1.0, 1.75, 2.5][seed % 3] + costs.min())


@BOTH
def test_a_plan_as_a_policy_decides_as_the_plan(protocol: Protocol) -> None:
    regrets = []
    for seed in range(5):
        world = random_world(seed)
        observations = world.sample(seed, n=12, rate=0.4)  # few, so that plans are bad
        for approach in APPROACHES:
            plan = fit_plan(world, observations, approach)
            again = plan_of(world, plan_policy(plan), protocol=protocol)
            assert [again.edge(s) for s in range(len(world.space))] == [
                plan.edge(s) for s in range(len(world.space))
            ]
            assert policy_regret(world, plan_policy(plan), protocol=protocol) == world.regret(plan)
            regrets.append(world.regret(plan))
    assert sum(regret > 0 for regret in regrets) > 5


@BOTH
def test_the_optimum_has_no_regret(protocol: Protocol) -> None:
    for seed in range(8):
        world = random_world(seed)
        policy = optimal_policy(world)
        assert policy_regret(world, policy, protocol=protocol) == 0
        assert policy_value(world, policy) == world.value(world.optimal_plan())


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
