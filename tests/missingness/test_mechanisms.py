"""Masks against what their definitions say: rates, drivers, (in)dependence, and what is never touched.

Masks are random; the keys are fixed. A bound of five standard errors is exceeded with probability 6e-7, so of
the some 1,500 checks of realised rates one fails by chance with probability 1e-3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array, Bool, Float, PRNGKeyArray
from scipy import stats

from ascertain import InputError, Problem, Table
from ascertain.datasets import Dataset, cube, cube_nm, cube_nuc, load
from ascertain.missingness import (
    MAR,
    MCAR,
    LogisticMNAR,
    Mechanism,
    SelfMNAR,
    get,
    mask_tables,
    names,
)

MECHANISMS: dict[str, type[Mechanism]] = {
    "mcar": MCAR,
    "mar": MAR,
    "mnar_logistic": LogisticMNAR,
    "mnar_self": SelfMNAR,
}

RATES = (0.0, 0.3, 0.5, 0.7)  # none, and the paper's
SIGMAS = 5
SYNTHETIC: dict[str, Callable[[int], Dataset]] = {"cube": cube, "cube_nm": cube_nm, "cube_nuc": cube_nuc}
DATASETS = [
    *SYNTHETIC,
    *(pytest.param(name, marks=pytest.mark.needs("data")) for name in ("actg175", "heart_disease")),
]
LOGISTIC = ("mar", "mnar_logistic")
Masking = Callable[[PRNGKeyArray, Problem, Table, Any], tuple[Mechanism, Array, Table]]


def masking(kind: type[Mechanism]) -> Masking:
    """Fit and sample with one key; give the mechanism, its probabilities, and the masked table."""

    def fit_and_sample(
        key: PRNGKeyArray, problem: Problem, table: Table, rate: Any
    ) -> tuple[Mechanism, Array, Table]:
        fitting, sampling = jr.split(key)
        fitted = kind.fit(fitting, problem, table, rate)
        return fitted, fitted.probabilities(table.x), fitted.sample(sampling, table)

    return fit_and_sample


# Compiling is most of the time that these tests take, and they run each program a few times only.
FAST = {"xla_backend_optimization_level": 0}
SINGLE: dict[str, Masking] = {
    name: jax.jit(masking(kind), compiler_options=FAST) for name, kind in MECHANISMS.items()
}
MANY: dict[str, Masking] = {
    name: jax.jit(jax.vmap(masking(kind), in_axes=(0, None, None, 0)), compiler_options=FAST)
    for name, kind in MECHANISMS.items()
}


@dataclass
class Masked:
    """A training table, masked with one key at each of the rates."""

    name: str
    problem: Problem
    table: Table
    fitted: Any
    probabilities: np.ndarray  # rates, rows, actions
    tables: Table  # one for each rate

    @property
    def missing(self) -> np.ndarray:
        return ~np.asarray(self.problem.readable(self.tables.available))


@pytest.fixture(scope="module", params=DATASETS)
def data(request: pytest.FixtureRequest) -> tuple[Problem, Table]:
    dataset = SYNTHETIC[request.param](5000) if request.param in SYNTHETIC else load(request.param)
    return dataset.problem.without_names(), dataset.split(0).train


@pytest.fixture(scope="module", params=MECHANISMS)
def masked(request: pytest.FixtureRequest, data: tuple[Problem, Table]) -> Masked:
    keys = jnp.broadcast_to(jr.key(7), (len(RATES),))
    fitted, probabilities, tables = MANY[request.param](keys, *data, jnp.array(RATES))
    return Masked(request.param, *data, fitted, np.asarray(probabilities, np.float64), tables)


def drivers(masked: Masked) -> np.ndarray:
    """Give the actions that drive the others' missingness, or none."""
    n = masked.problem.n_actions
    return np.asarray(masked.fitted.driver)[0] if masked.name in LOGISTIC else np.zeros(n, bool)


def test_actions_go_missing_at_the_rate(masked: Masked) -> None:
    always = drivers(masked) if masked.name == "mar" else np.zeros(masked.problem.n_actions, bool)
    for rate, missing, probability in zip(RATES, masked.missing, masked.probabilities, strict=True):
        n = len(missing)
        # Rows that would be empty are redrawn, which lowers the rate by what they would have added.
        empty = probability.prod(axis=1)
        redrawn = (empty / (1 - empty)).mean() * (1 - rate)
        # Independent draws of unequal probabilities vary at most as much as a binomial of their mean.
        error = SIGMAS * np.sqrt(rate * (1 - rate) / n)
        realised = missing.mean(axis=0)
        assert np.all(realised[~always] <= rate + error)
        assert np.all(realised[~always] >= rate - redrawn - error)
        assert not missing[:, always].any()


def test_intercepts_are_calibrated_on_training_rows(masked: Masked) -> None:
    always = drivers(masked) & (masked.name == "mar")
    expected = np.where(always, 0.0, np.array(RATES)[:, None])
    np.testing.assert_allclose(masked.probabilities.mean(axis=1), expected, atol=1e-4)


def test_drivers_are_three_tenths_of_the_actions(masked: Masked) -> None:
    n = masked.problem.n_actions
    if masked.name not in LOGISTIC:
        assert not hasattr(masked.fitted, "driver")
        return
    chosen = np.asarray(masked.fitted.driver)
    assert chosen.sum(axis=1).tolist() == [max(3 * n // 10, 1)] * len(RATES)
    assert (chosen == chosen[0]).all()  # one key, the same drivers whatever the rate
    if masked.name == "mar":  # D8: the overall rate is p (G - n_in) / G
        overall = masked.probabilities.mean(axis=(1, 2))
        np.testing.assert_allclose(overall, np.array(RATES) * (1 - chosen[0].mean()), atol=1e-4)


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (3, 1), (7, 2)])
def test_few_actions_have_at_least_one_driver(n: int, expected: int) -> None:
    table = Table(np.random.default_rng(n).normal(size=(30, n)), np.arange(30) % 2)
    problem = Problem(np.eye(n), np.ones(n), 1, 2)
    driver = jax.jit(lambda key: MAR.fit(key, problem, table, 0.5).driver, compiler_options=FAST)(jr.key(0))
    assert int(driver.sum()) == expected


def test_logits_have_deviation_one_on_training_rows(masked: Masked) -> None:
    if masked.name == "mcar":
        assert (masked.probabilities == np.array(RATES, np.float32)[:, None, None]).all()
        return
    probability = masked.probabilities[1:]
    # Drivers have no logits; those of a column that is zero throughout are constant.
    target = ~drivers(masked) & (probability[0].std(axis=0) > 1e-6)
    assert target.any()
    probability = probability[:, :, target]
    logits = np.log(probability / (1 - probability))
    np.testing.assert_allclose(logits.std(axis=1), 1, rtol=2e-3)
    # The intercept alone depends on the rate.
    between = logits[1:] - logits[:1]
    np.testing.assert_allclose(between - between.mean(axis=1, keepdims=True), 0, atol=1e-3)


def test_what_is_left_is_left_as_it_was(masked: Masked) -> None:
    x, y = np.asarray(masked.tables.x), np.asarray(masked.tables.y)
    available = np.asarray(masked.tables.available)
    original = np.asarray(masked.table.x)
    for rate in range(len(RATES)):
        assert np.array_equal(x[rate][available[rate]], original[available[rate]])
        assert not x[rate][~available[rate]].any()
        np.testing.assert_array_equal(y[rate], masked.table.y)
    assert x.dtype == original.dtype


def test_groups_go_missing_as_a_whole_and_rows_keep_something(masked: Masked) -> None:
    available = np.asarray(masked.tables.available)
    for columns in np.asarray(masked.problem.reveals):
        group = available[:, :, columns]
        assert (group.all(axis=-1) == group.any(axis=-1)).all()
    assert available.any(axis=-1).all()


def test_masks_are_nested_in_the_rate(masked: Masked) -> None:
    assert not masked.missing[0].any()  # at rate 0
    # Rows that were redrawn need not be nested (at a lower rate than 0.7 a row is redrawn only if it is at
    # 0.7): none under MAR or among the 51 actions of CUBE-NM, at most 1 row in 100 of the others.
    nested = (masked.missing[:-1] <= masked.missing[1:]).all(axis=(0, 2))
    redrawn = masked.probabilities[-1].prod(axis=1).sum()
    allowed = 0 if redrawn < 1e-3 else redrawn + SIGMAS * np.sqrt(redrawn)
    assert (~nested).sum() <= allowed
    assert (masked.missing[:-1] < masked.missing[1:]).any(axis=(1, 2)).all()


def test_logistic_mnar_is_mar_with_drivers_missing_too() -> None:
    # Section 5 of the specification: they share drivers, weights, intercepts.
    table = gaussian(500, seed=0)
    mar: Any
    mnar: Any
    (mar, at_random, _), (mnar, not_at_random, _) = (
        SINGLE[name](jr.key(5), FOUR, table, jnp.float32(0.5)) for name in LOGISTIC
    )
    driver = np.asarray(mar.driver)
    np.testing.assert_array_equal(mnar.driver, driver)
    np.testing.assert_array_equal(np.asarray(not_at_random)[:, ~driver], np.asarray(at_random)[:, ~driver])
    assert (np.asarray(at_random)[:, driver] == 0).all()
    assert (np.asarray(not_at_random)[:, driver] == 0.5).all()


def test_a_zero_column_goes_missing_at_the_rate_and_a_constant_one_always_or_never() -> None:
    # The edge cases of the specification: a logit of 0 is calibrated, one of 1/eps is out of reach.
    x = np.column_stack([np.random.default_rng(0).normal(size=100), np.zeros(100), np.ones(100)])
    problem = Problem(np.eye(3), np.ones(3), 1, 2)
    rates = jnp.array([0.0] + [0.3] * 8)
    _, probabilities, _ = MANY["mnar_self"](jr.split(jr.key(0), 9), problem, Table(x, [0, 1] * 50), rates)
    none, *means = np.asarray(probabilities).mean(axis=1)
    assert not none.any()
    np.testing.assert_allclose(np.array(means)[:, :2], 0.3, atol=1e-4)
    # By the sign of its weight; eight of one sign would have probability 1/128.
    assert {float(mean[2]) for mean in means} == {0.0, 1.0}


# What depends on what

FOUR = Problem(np.eye(4), np.ones(4), 2, 2)


def gaussian(n: int, seed: int) -> Table:
    """Draw rows of four equally correlated (0.5) standard normal values."""
    covariance = np.full((4, 4), 0.5) + 0.5 * np.eye(4)
    rng = np.random.default_rng(seed)
    return Table(rng.multivariate_normal(np.zeros(4), covariance, n), rng.integers(0, 2, n))


def score_z(outcome: np.ndarray, given: np.ndarray, value: np.ndarray) -> float:
    """Give the score statistic, standard normal if a logistic model of the given needs no term in the value.

    Newton's method for the smaller model; Rao's test for the term.
    """
    design = np.column_stack([np.ones(len(outcome)), given])
    beta = np.zeros(design.shape[1])
    for _ in range(30):
        fitted = 1 / (1 + np.exp(-design @ beta))
        weight = fitted * (1 - fitted)
        beta += np.linalg.solve(design.T * weight @ design, design.T @ (outcome - fitted))
    along = np.linalg.solve(design.T * weight @ design, design.T * weight @ value)
    rest = value - design @ along
    return float(rest @ (outcome - fitted) / np.sqrt(weight @ rest**2))


# Among all |z| here (some 60) the largest exceeds 5 by chance with probability 4e-5. With 4,000 rows and a
# weight w on the hidden value, z is about w sqrt(4000 x 0.2 x 0.6) = 22 w: w = 0.4 is found with probability
# above 1 - 1e-4, and the mechanisms' own weights are about 1.
N = 4000
FOUND = 5.0


def test_the_statistic_finds_a_weight_of_0_4_on_the_hidden_value() -> None:
    rng = np.random.default_rng(0)
    x = np.asarray(gaussian(N, seed=0).x, float)
    for weight, found in [(0.0, False), (0.4, True), (-0.4, True)]:
        missing = rng.random(N) < 1 / (1 + np.exp(-(x[:, 0] + weight * x[:, 1])))
        z = score_z(missing, x[:, :1], x[:, 1])
        assert (abs(z) > FOUND) == found
        assert not found or np.sign(z) == np.sign(weight)


@pytest.mark.parametrize("name", LOGISTIC)
def test_masks_are_independent_of_hidden_values_given_the_drivers(name: str) -> None:
    for seed in range(4):
        table = gaussian(N, seed)
        fitted: Any
        fitted, _, masked = SINGLE[name](jr.key(seed), FOUR, table, jnp.float32(0.5))
        driver = np.asarray(fitted.driver)
        x, missing = np.asarray(table.x, float), ~np.asarray(masked.available)
        for action in np.flatnonzero(~driver):
            # A row with all four missing is redrawn, under logistic MNAR: look where the driver is left.
            rows = ~missing[:, driver].any(axis=1)
            assert abs(score_z(missing[rows, action], x[rows][:, driver], x[rows, action])) < FOUND
            # On the driver they do depend, as its weight says.
            z = score_z(missing[rows, action], np.zeros((rows.sum(), 0)), x[rows][:, driver][:, 0])
            weight = float(np.asarray(fitted.weights)[driver, action][0])
            assert abs(z) > FOUND
            assert np.sign(z) == np.sign(weight)


def test_drivers_of_logistic_mnar_are_missing_completely_at_random(masked: Masked) -> None:
    if masked.name != "mnar_logistic":
        return
    x = np.asarray(masked.table.x, float)
    missing = masked.missing[RATES.index(0.5)]
    nothing = np.zeros((len(x), 0))
    for action, column in product(np.flatnonzero(drivers(masked)), np.flatnonzero(np.ptp(x, axis=0) > 0)):
        # Some 1,300 statistics, of which one exceeds 5 by chance with probability 8e-4.
        assert abs(score_z(missing[:, action], nothing, x[:, column])) < FOUND


def test_self_masking_depends_on_the_own_value_and_no_other() -> None:
    for seed in range(4):
        table = gaussian(N, seed)
        # At 0.1 one row in ten thousand is redrawn, which would tie an action to the others' values.
        fitted: Any
        fitted, _, masked = SINGLE["mnar_self"](jr.key(seed), FOUR, table, jnp.float32(0.1))
        x, missing = np.asarray(table.x, float), ~np.asarray(masked.available)
        weights = np.asarray(fitted.weights)
        assert (weights[~np.eye(4, dtype=bool)] == 0).all()
        for action in range(4):
            z = score_z(missing[:, action], np.zeros((N, 0)), x[:, action])
            assert abs(z) > FOUND
            assert np.sign(z) == np.sign(weights[action, action])
            other = (action + 1) % 4
            assert abs(score_z(missing[:, action], x[:, [action]], x[:, other])) < FOUND


# Rows keep something


class Fixed(Mechanism):
    """Actions go missing with given probabilities."""

    reveals: Bool[Array, "actions features"]
    each: Float[Array, " actions"]

    @classmethod
    def fit(cls, key: PRNGKeyArray, problem: Problem, table: Table, rate: Any) -> "Fixed":
        """Take the probabilities for the rate."""
        del key, table
        return cls(problem.reveals, rate)

    def probabilities(self, x: Float[Array, "instances features"]) -> Float[Array, "instances actions"]:
        """Give the same probabilities for every row."""
        return jnp.broadcast_to(self.each[None], (x.shape[0], self.each.shape[0]))


SAMPLE = jax.jit(Fixed.sample, compiler_options=FAST)


@pytest.mark.parametrize("each", [(0.9, 0.6, 0.75), (0.2, 0.99, 0.95), (0.97, 0.98, 0.5)])
@pytest.mark.parametrize("hole", [None, 0, 1])
def test_masks_have_the_law_of_redrawing_until_something_is_left(
    each: tuple[float, ...], hole: int | None
) -> None:
    # Chi-square of the masks' counts against their probabilities given that a readable action is left;
    # nine tests at 1e-5. The first action reveals two columns; a native hole takes out one action.
    n = 40_000
    reveals = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    x = np.ones((n, 4))
    if hole is not None:
        x[:, hole + 1] = np.nan
    table = Table(x, np.arange(n) % 2)
    problem = Problem(reveals, np.ones(3), 1, 2)
    sampled = SAMPLE(Fixed(problem.reveals, jnp.array(each)), jr.key(0), table)
    readable = np.asarray(problem.readable(sampled.available))
    could = [action for action in range(3) if action != hole]
    expected = {
        mask: np.prod([each[a] if not kept else 1 - each[a] for a, kept in zip(could, mask, strict=True)])
        for mask in product((False, True), repeat=len(could))
        if any(mask)
    }
    masks, counts = np.unique(readable[:, could], axis=0, return_counts=True)
    found = {tuple(mask): count for mask, count in zip(masks.tolist(), counts.tolist(), strict=True)}
    assert set(found) <= set(expected)
    observed = [found.get(mask, 0) for mask in expected]
    share = np.array(list(expected.values()))
    assert stats.chisquare(observed, n * share / share.sum()).pvalue > 1e-5


def test_what_an_incomplete_group_has_left_goes_missing_at_the_rate() -> None:
    # It cannot be acquired, but models learn from it; at rate 0 it stays.
    n = 2000
    table = Table(np.tile([1.0, np.nan, 1.0], (n, 1)), np.arange(n) % 2)
    problem = Problem([[1, 1, 0], [0, 0, 1]], [1, 1], 1, 2)
    for rate in (0.0, 0.4):
        available = np.asarray(SINGLE["mcar"](jr.key(0), problem, table, jnp.float32(rate))[2].available)
        error = SIGMAS * np.sqrt(rate * (1 - rate) / n)
        assert abs((~available[:, 0]).mean() - rate) <= error
        assert not available[:, 1].any()
        assert available[:, 2].all()  # the only action that can be left


@pytest.mark.parametrize("name", MECHANISMS)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rate=st.floats(0, 0.99),
    spread=st.sampled_from([0.0, 1.0, 5.0]),
    holes=st.sampled_from([0.0, 0.3, 0.9]),
)
def test_a_row_keeps_an_action_if_it_had_one(
    name: str, seed: int, rate: float, spread: float, holes: float
) -> None:
    # Values up to e^20 reach where probabilities round to 1; with no spread, columns are constant.
    rng = np.random.default_rng(seed)
    x = rng.choice([-1, 1]) * np.exp(spread * rng.normal(size=(N, 4)))
    table = Table(np.where(rng.random(x.shape) < holes, np.nan, x), rng.integers(0, 2, N), n_classes=2)
    _, _, masked = SINGLE[name](jr.key(seed), FOUR, table, jnp.float32(rate))
    before, after = np.asarray(table.available), np.asarray(masked.available)
    assert (after.any(axis=1) == before.any(axis=1)).all()
    assert (after <= before).all()  # holes stay holes
    assert np.array_equal(np.asarray(masked.x), np.where(after, table.x, 0))
    np.testing.assert_array_equal(masked.y, table.y)
    if rate == 0:
        np.testing.assert_array_equal(after, before)


def test_the_only_action_stays_even_where_it_would_always_go_missing() -> None:
    table = Table(np.ones((50, 1)), [0, 1] * 25)  # constant: probability 0 or 1
    keys, problem = jr.split(jr.key(0), 9), Problem([[1]], [1], 1, 2)
    _, probabilities, masked = MANY["mnar_self"](keys, problem, table, jnp.full(9, 0.99))
    assert np.asarray(probabilities).max() == 1
    assert masked.available.all()


# One at a time and many at once


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *[(name, FAST) for name in ("mar", "mnar_self")],
        *[pytest.param(name, None, marks=pytest.mark.slow) for name in MECHANISMS],
    ],
)
def test_a_replicate_does_not_depend_on_its_place_or_company(
    name: str, options: dict[str, Any] | None
) -> None:
    table = gaussian(N, seed=0)
    keys, rates = jr.split(jr.key(0), 5), jnp.array([0.1, 0.3, 0.5, 0.7, 0.9])
    vmapped = jax.vmap(masking(MECHANISMS[name]), in_axes=(0, None, None, 0))
    many = jax.jit(vmapped, compiler_options=options)

    def leaves(keys: Array, rates: Array) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(many(keys, FOUR, table, rates))]

    together = leaves(keys, rates)
    order = np.array([3, 0, 4, 1, 2])
    for one, other in zip(together, leaves(keys[order], rates[order]), strict=True):
        np.testing.assert_array_equal(one[order], other)
    strangers = leaves(jr.split(jr.key(9), 5).at[0].set(keys[0]), jnp.full(5, 0.6).at[0].set(rates[0]))
    for one, other in zip(together, strangers, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
    available = np.asarray(many(keys, FOUR, table, rates)[2].available)
    assert len(np.unique(available, axis=0)) == 5
    for place in (0, 4):
        _, _, alone = SINGLE[name](keys[place], FOUR, table, rates[place])
        np.testing.assert_array_equal(available[place], alone.available)


def test_validation_rows_are_masked_by_the_mechanism_of_the_training_rows() -> None:
    # A value twelve deviations off is, by the sign of the weight, always or never missing (to 1e-3), so long
    # as some of the eight columns have either sign. A mechanism fitted on these rows would hide half of them.
    rng = np.random.default_rng(0)
    train = Table(rng.normal(size=(400, 8)), [0, 1] * 200)
    valid = Table(rng.normal(12, 1, (300, 8)), [0, 1] * 150)
    problem = Problem(np.eye(8), np.ones(8), 1, 2)
    masking_both = jax.jit(mask_tables, static_argnums=1, compiler_options=FAST)
    masked, shifted = masking_both(jr.key(0), SelfMNAR, problem, train, valid, jnp.float32(0.5))
    realised = (~np.asarray(masked.available)).mean(axis=0)
    np.testing.assert_allclose(realised, 0.5, atol=SIGMAS * 0.5 / np.sqrt(400))
    missing = (~np.asarray(shifted.available)).mean(axis=0)
    assert ((missing < 0.02) | (missing > 0.98)).all()
    assert missing.min() < 0.5 < missing.max()


@pytest.mark.parametrize("kind", [MCAR, MAR, LogisticMNAR, SelfMNAR])
@pytest.mark.parametrize(
    "rate", [1.0, -0.1, float("nan"), 2, True, np.float64(1), jnp.float32(1), jnp.float32("nan")]
)
def test_a_rate_outside_0_to_1_is_refused(kind: type[Mechanism], rate: Any) -> None:
    table = Table([[0.0], [1.0]], [0, 1])
    with pytest.raises(InputError, match="rate must be at least 0 and below 1"):
        kind.fit(jr.key(0), Problem([[1]], [1], 1, 2), table, rate)


def test_mechanisms_have_names() -> None:
    assert names()[:4] == tuple(MECHANISMS)
    assert all(get(name).fit == kind.fit for name, kind in MECHANISMS.items())
    with pytest.raises(InputError, match=r"no mechanism is called 'mnar_sel'; did you mean 'mnar_self'\?"):
        get("mnar_sel")
