"""The planner against exact solutions of finite problems, and its parts."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Bool, Float

from ascertain import MCAR, PAPER, Problem, Table, mask_tables, methods
from ascertain._core.effort import EFFORTS
from ascertain.exact import Atoms, FiniteProblem, plan_of, problem_of, shortcut, table_of
from ascertain.methods import _planner as planner
from ascertain.methods._availability import availability_weights, fit_overlap
from ascertain.methods._planner import Planner, row_folds

ROWS, VALID_ROWS, FEATURES = 2000, 500, 6
MANY_ROWS = 8000  # where two actions may be nearly as good
RATE = 0.6  # of missing cells: aliasing then has regret 1/4 on the shortcut problem
WORLD = shortcut(d=FEATURES, budget=2)


def tables(world: FiniteProblem, seed: int, rate: float = 0.0, rows: int = ROWS) -> tuple[Table, Table]:
    rng = np.random.default_rng(seed)
    train, valid = (table_of(world, world.sample(rng, n)) for n in (rows, VALID_ROWS))
    if not rate:
        return train, valid
    return mask_tables(jr.key(seed), MCAR, problem_of(world), train, valid, rate)


def fitted(
    world: FiniteProblem,
    seed: int,
    *,
    rate: float = 0.0,
    rows: int = ROWS,
    settings: planner.Settings = planner.Settings(),
) -> Planner:
    policy = methods.fit(
        "planner",
        jr.key(seed),
        problem_of(world),
        *tables(world, seed, rate, rows),
        settings=settings,
    )
    assert isinstance(policy, Planner)
    return policy


@cache
def on_shortcut() -> Planner:
    return fitted(WORLD, 0, settings=planner.Settings().shortened(EFFORTS["low"], ROWS))


@cache
def on_shortcut_with_holes() -> Planner:
    return fitted(WORLD, 0, rate=RATE, settings=planner.Settings(direct=True))


def random_world(seed: int) -> FiniteProblem:
    """Six binary features whose joint distribution with the label has some structure."""
    rng = np.random.default_rng(seed)
    x = (np.arange(2**FEATURES)[:, None] >> np.arange(FEATURES)) & 1
    chance = rng.dirichlet(np.full(2 * len(x), 0.1))
    atoms = Atoms(np.tile(x, (2, 1)), np.repeat([0, 1], len(x)), chance, (2,) * FEATURES, 2)
    return FiniteProblem(atoms, costs=np.ones(FEATURES), budget=2)


class Dynamics:
    """Brute force for the planner's own utility: classes count the same, and its predictors judge."""

    def __init__(self, world: FiniteProblem, policy: Planner):
        self.x, self.y = np.asarray(world.atoms.x), np.asarray(world.atoms.y)
        chance = np.asarray(world.atoms.probability)
        share = np.bincount(self.y, chance)
        self.chance = chance / share[self.y] / 2
        self.policy, self.budget = policy, int(world.budget)

    def utility(self, acquired: tuple[int, ...], rows: Bool[np.ndarray, " atoms"]) -> float:
        """The summed utility of atoms that agree in what is acquired."""
        observed = np.zeros(FEATURES, bool)
        observed[list(acquired)] = True
        x = np.where(observed, self.x[np.argmax(rows)], 0).astype(np.float32)
        belief = np.asarray(_belief(self.policy, jnp.asarray(x)[None], jnp.asarray(observed)[None]))[0]
        of_class = np.bincount(self.y[rows], self.chance[rows], minlength=2)
        return float(of_class @ np.maximum(np.log(belief + 1e-12), planner.Settings().floor))

    def split(self, action: int, rows: Bool[np.ndarray, " atoms"]) -> list[Bool[np.ndarray, " atoms"]]:
        parts = [rows & (self.x[:, action] == value) for value in (0, 1)]
        return [part for part in parts if self.chance[part].sum() > 0]

    def optimum(self, acquired: tuple[int, ...], rows: Bool[np.ndarray, " atoms"]) -> float:
        if len(acquired) == self.budget:
            return self.utility(acquired, rows)
        free = [a for a in range(FEATURES) if a not in acquired]
        return max(sum(self.optimum((*acquired, a), part) for part in self.split(a, rows)) for a in free)

    def value(self, acquired: tuple[int, ...], rows: Bool[np.ndarray, " atoms"]) -> float:
        """What the policy reaches."""
        if len(acquired) == self.budget:
            return self.utility(acquired, rows)
        taken = np.zeros((1, FEATURES), bool)
        taken[0, list(acquired)] = True
        x = np.where(taken, self.x[np.argmax(rows)], 0).astype(np.float32)
        scores = np.asarray(_scores(self.policy, jnp.asarray(x), jnp.asarray(taken)))[0, 1:]
        action = int(np.argmax(np.where(taken[0], -np.inf, scores)))
        return sum(self.value((*acquired, action), part) for part in self.split(action, rows))


@jax.jit
def _belief(policy: Planner, x: jax.Array, observed: jax.Array) -> jax.Array:
    return policy.belief(x, observed)


@jax.jit
def _scores(policy: Planner, x: jax.Array, acquired: jax.Array) -> jax.Array:
    return policy(x, acquired, acquired, jnp.ones_like(acquired), key=jr.key(0))


@pytest.mark.slow
def test_it_finds_the_detour_of_the_shortcut_problem() -> None:
    plan = plan_of(WORLD, on_shortcut())
    assert plan.first_action == "context"
    assert WORLD.regret(plan) < 0.01  # myopic methods have 1/4


@pytest.mark.slow
@pytest.mark.parametrize(("d", "budget"), [(8, 2), (6, 3), (8, 3)])
def test_it_finds_longer_detours(d: int, budget: int) -> None:
    world = shortcut(d=d, budget=budget)
    assert world.regret(plan_of(world, fitted(world, 0))) < 0.01


@pytest.mark.slow
def test_it_learns_from_holes_directly() -> None:
    assert WORLD.regret(plan_of(WORLD, on_shortcut_with_holes())) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_it_is_near_the_optimum_of_its_own_predictor(seed: int) -> None:
    world = random_world(seed)
    dynamics = Dynamics(world, fitted(world, seed, rows=MANY_ROWS))
    everything = np.ones(len(dynamics.y), bool)
    reached, best = dynamics.value((), everything), dynamics.optimum((), everything)
    assert best - 0.02 <= reached <= best + 1e-6


@pytest.mark.slow
def test_values_are_expected_gains() -> None:
    """On the shortcut problem all that is uncertain, log 2, is gained by the detour."""
    nothing = jnp.zeros((1, FEATURES), bool)
    gain = _scores(on_shortcut(), jnp.zeros((1, FEATURES)), nothing)[0, 1:]
    assert float(gain[0]) == pytest.approx(np.log(2), abs=0.1)
    assert float(gain.max()) == float(gain[0])


@pytest.mark.slow
def test_it_plans_for_the_budget_that_it_has() -> None:
    nothing = jnp.zeros((1, FEATURES), bool)
    poor = _scores(on_shortcut().at(1.0), jnp.zeros((1, FEATURES)), nothing)[0, 1:]
    price = np.asarray(problem_of(WORLD).prices(nothing[0]))
    assert (np.asarray(poor)[price > 1] < -1e30).all()  # what cannot be paid is never chosen
    assert (np.abs(np.asarray(poor)[price <= 1]) < 0.2).all()  # one bit alone tells nothing


@pytest.mark.slow
def test_a_higher_price_of_money_stops_earlier() -> None:
    nothing = jnp.zeros((1, FEATURES), bool)
    choices = [
        int(_scores(on_shortcut().stopping_at(price), jnp.zeros((1, FEATURES)), nothing)[0].argmax())
        for price in (0.0, 0.2, 2.0)
    ]
    assert choices == [1, 1, 0]  # the detour gains log 2 for a cost of 2


@pytest.mark.slow
def test_the_outlook_is_calibrated() -> None:
    """With nothing known, the detour is always right; other first steps are right in 3 of 4 cases."""
    nothing = jnp.zeros((1, FEATURES), bool)
    outlook = np.asarray(
        on_shortcut().outlook(jnp.zeros((1, FEATURES)), nothing, nothing, jnp.ones_like(nothing))
    )[0]
    assert outlook[0] > 0.9
    assert np.abs(outlook[1:4] - 0.75) == pytest.approx(0, abs=0.12)


@pytest.mark.slow
def test_what_a_row_lacks_has_no_influence_on_direct_learning() -> None:
    train, valid = tables(WORLD, 0, RATE)
    noise = jr.normal(jr.key(9), train.x.shape)
    other = eqx.tree_at(lambda table: table.x, train, jnp.where(train.available, train.x, noise))
    settings = planner.Settings(direct=True)
    again = methods.fit("planner", jr.key(0), problem_of(WORLD), other, valid, settings=settings)
    same = jax.tree.map(lambda a, b: bool(jnp.array_equal(a, b)), on_shortcut_with_holes(), again)
    assert all(jax.tree.leaves(same))


def test_repeated_rows_are_in_the_same_fold() -> None:
    table = Table(np.zeros((300, 3)), np.arange(300) % 2)
    twice = table.take(jnp.tile(jnp.arange(300), 2))
    folds = np.asarray(row_folds(twice, 5))
    assert (folds[:300] == folds[300:]).all()
    # Each fold has 60 rows on average, with a standard deviation of 7.
    assert np.abs(np.bincount(folds[:300], minlength=5) - 60).max() < 4 * 7


def logistic_holes(column: int) -> tuple[Problem, Table, Float[np.ndarray, " rows"]]:
    """The second action is available the more often, the larger a complete column is."""
    rng, n = np.random.default_rng(0), 4000
    x = rng.normal(size=(n, 3))
    available = np.ones((n, 3), bool)
    available[:, 2] = rng.random(n) < 1 / (1 + np.exp(-x[:, column]))
    # Column 0 is known from the start; 1 and 2 are acquired.
    problem = Problem([[0, 1, 0], [0, 0, 1]], [1, 1], budget=2, n_classes=2)
    return problem, Table(x, rng.integers(2, size=n), available), x[:, column]


def weights_of(problem: Problem, table: Table) -> Float[np.ndarray, "rows actions"]:
    return np.asarray(availability_weights(jr.key(0), problem, table, problem.readable(table.available)))


def test_weights_undo_what_a_column_decides() -> None:
    problem, table, decides = logistic_holes(column=1)
    has, weight = np.asarray(table.available[:, 2]), weights_of(problem, table)[:, 1]
    without, with_weights = decides[has].mean(), np.average(decides[has], weights=weight[has])
    assert without > 0.3
    assert abs(with_weights) < 4 * decides[has].std() / np.sqrt(has.sum()) + 0.02


def test_what_every_state_contains_needs_no_weights() -> None:
    problem, table, _ = logistic_holes(column=0)
    assert np.abs(weights_of(problem, table)[:, 1] - 1).max() < 0.25


def test_settings_follow_the_budget_and_the_effort() -> None:
    settings = methods.get("planner").completed(planner.Settings(), problem_of(WORLD), PAPER)
    assert settings.steps == 2
    short = settings.shortened(EFFORTS["low"], ROWS)
    assert short.updates < settings.updates
    assert short.exploring < settings.exploring
    assert short.steps == 2


def test_plans_count_on_what_rows_like_this_one_have() -> None:
    """One hospital in two never ran the second test; its records say nothing about it."""
    rng = np.random.default_rng(0)
    hospital = rng.integers(0, 2, 2000)
    x = np.column_stack([rng.normal(size=(2000, 2)), 2.0 * hospital - 1])
    available = rng.random((2000, 3)) < 0.5
    available[:, 1] &= hospital == 1
    available[:, 2] = True
    problem = Problem([[1, 0, 0], [0, 1, 0]], [1, 1], budget=1, n_classes=2)  # the hospital is known
    table = Table(np.where(available, x, 0.0), rng.integers(0, 2, 2000), available)
    overlap = fit_overlap(jr.key(0), problem, table, problem.readable(table.available))
    at_hospital = jnp.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
    nothing = jnp.zeros((2, 2), bool)
    np.testing.assert_array_equal(overlap(at_hospital, nothing), [[True, False], [True, True]])


def test_plans_do_not_count_on_two_tests_that_no_row_has_together() -> None:
    either = np.random.default_rng(0).random(2000) < 0.5
    available = np.column_stack([either, ~either, np.ones(2000, bool)])
    problem = Problem(np.eye(3), np.ones(3), budget=2, n_classes=2)
    table = Table(np.zeros((2000, 3)), np.arange(2000) % 2, available)
    overlap = fit_overlap(jr.key(0), problem, table, problem.readable(table.available))
    acquired = jnp.array([[False, False, False], [True, False, False], [False, False, True]])
    found = np.asarray(overlap(jnp.zeros((3, 3)), acquired))
    np.testing.assert_array_equal(found[:, 1], [True, False, True])


def test_small_tables_with_many_holes_leave_something_to_count_on() -> None:
    available = np.random.default_rng(0).random((100, 4)) < 0.2
    problem = Problem(np.eye(4), np.ones(4), budget=2, n_classes=2)
    table = Table(np.zeros((100, 4)), np.arange(100) % 2, available)
    overlap = fit_overlap(jr.key(0), problem, table, problem.readable(table.available))
    assert bool(overlap(table.x, jnp.zeros((100, 4), bool)).all())


def test_rare_tests_count_only_where_enough_rows_have_them_together() -> None:
    """Three tests that one row in seven has: each can be relied on, but hardly any row has two."""
    rng = np.random.default_rng(0)
    available = np.column_stack([rng.random((4000, 3)) < 0.15, rng.random((4000, 4)) < 0.9])
    problem = Problem(np.eye(7), np.ones(7), budget=2, n_classes=2)
    table = Table(np.zeros((4000, 7)), np.arange(4000) % 2, available)
    overlap = fit_overlap(jr.key(0), problem, table, problem.readable(table.available))
    acquired = np.zeros((3, 7), bool)
    acquired[1, 3], acquired[2, 0] = True, True  # a usual test, a rare one
    found = np.asarray(overlap(jnp.zeros((3, 7)), jnp.asarray(acquired)))
    assert found[0].all()
    assert found[1].all()
    # 2% of the rows have two rare ones; one in twenty would do.
    np.testing.assert_array_equal(found[2, 1:], [False, False, True, True, True, True])


@pytest.mark.slow
def test_where_everything_is_rare_plans_go_on() -> None:
    """With 70% missing no row has four actions together, yet none is rarer than usual."""
    available = np.random.default_rng(0).random((1000, 8)) < 0.3
    problem = Problem(np.eye(8), np.ones(8), budget=4, n_classes=2)
    table = Table(np.zeros((1000, 8)), np.arange(1000) % 2, available)
    overlap = fit_overlap(jr.key(0), problem, table, problem.readable(table.available))
    acquired = jnp.arange(8)[None] < 4
    assert bool(overlap(jnp.zeros((1, 8)), acquired)[0, 4:].all())
