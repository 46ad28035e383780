"""The treatments, and what every restorer owes the table: what was observed stays as it was."""

import functools
import inspect
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from jaxtyping import Array, Float, PRNGKeyArray
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from ascertain import InputError, Problem, Table
from ascertain.restoration import (
    PVAE,
    PVAERestorer,
    Restorer,
    fit_hotdeck,
    fit_mean,
    fit_sklearn,
    held_out_error,
    restore,
    treat,
)
from ascertain.restoration._pvae import Settings

# Five features; the last two make a group.
REVEALS = np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 1]], bool)
N = 400  # rows to hold cells out of
PROBLEM = Problem(REVEALS, np.ones(4), budget=2, n_classes=2)


def table(seed: int, n: int = 30, missing: float = 0.4) -> Table:
    rng = np.random.default_rng(seed)
    return Table(rng.normal(size=(n, 5)), np.arange(n) % 2, rng.random((n, 5)) >= missing)


def bits(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32).view(np.uint32)


def check_restored(before: Table, after: Table) -> None:
    """Observed cells are the same bit by bit, the sign of zero included; the others are filled."""
    available = np.asarray(before.available)
    np.testing.assert_array_equal(bits(after.x)[available], bits(before.x)[available])
    np.testing.assert_array_equal(after.y, before.y)
    assert np.asarray(after.available).all()
    assert np.isfinite(after.x).all()
    assert (after.x.dtype, after.n_classes) == (before.x.dtype, before.n_classes)


# Every restorer.


def pvae(*, see_label: bool) -> PVAERestorer:
    """Give a PVAE with random parameters, made with NumPy to spare compilation."""
    small = Settings(latent=2, embedding=3, point_hidden=4, encoder=(3,), decoder=(4,), classifier=())
    rng = np.random.default_rng(0)
    shapes = eqx.filter_eval_shape(PVAE, 5, 2, small, key=jr.key(0))
    drawn = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), shapes)
    return PVAERestorer(drawn, see_label=see_label)


def restorer(name: str, train: Table) -> Restorer:
    key = jr.key(0)
    if name == "mean":
        return fit_mean(train)
    if name == "hotdeck":
        return fit_hotdeck(key, PROBLEM, train)
    if name == "hotdeck, nearest":
        return fit_hotdeck(key, PROBLEM, train, neighbours=2)
    if name == "iterative":
        return fit_sklearn(key, IterativeImputer(sample_posterior=True, max_iter=2), train)
    if name == "knn":
        return fit_sklearn(key, KNNImputer(n_neighbors=2), train)
    return pvae(see_label=name == "pvae")


RESTORERS = ("mean", "hotdeck", "hotdeck, nearest", "iterative", "knn", "pvae", "pvae, label-free")


@pytest.mark.parametrize("name", RESTORERS)
def test_observed_cells_stay_as_they_are(name: str) -> None:
    train, incomplete = table(0), table(1)
    fitted = restorer(name, train)
    assert isinstance(fitted, Restorer)

    def restored(incomplete: Table) -> Table:
        return treat(incomplete, "restored", restorer=fitted, key=jr.key(1))

    # Jitted, where it can be, since that compiles faster than one operation after the other.
    call = jax.jit(restored) if isinstance(fitted, eqx.Module) else restored
    check_restored(incomplete, call(incomplete))
    # Nor does a restorer touch a table without holes.
    complete = table(2, missing=0.0)
    np.testing.assert_array_equal(bits(call(complete).x), bits(complete.x))


@jax.jit
def restore_by_mean(key: PRNGKeyArray, train: Table, incomplete: Table) -> Table:
    return restore(key, fit_mean(train), incomplete)


@functools.partial(jax.jit, static_argnums=3, compiler_options={"xla_backend_optimization_level": 0})
def restore_by_hotdeck(key: PRNGKeyArray, train: Table, incomplete: Table, neighbours: int | None) -> Table:
    return restore(key, fit_hotdeck(key, PROBLEM, train, neighbours), incomplete)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Draw six rows of any single-precision numbers short of overflow, with any holes."""
    cells = st.floats(-1e6, 1e6, width=32) | st.sampled_from([-0.0, 1e-40, 1e-45])
    x = draw(hnp.arrays(np.float32, (6, 5), elements=cells))
    available = draw(hnp.arrays(bool, (6, 5)))
    y = draw(hnp.arrays(np.int32, 6, elements=st.integers(0, 1)))
    return Table(x, y, available, n_classes=2)


@settings(max_examples=60, deadline=None)
@given(train=tables(), incomplete=tables(), seed=st.integers(0, 2**31 - 1))
def test_observed_cells_stay_as_they_are_in_any_table(train: Table, incomplete: Table, seed: int) -> None:
    key = jr.key(seed)
    check_restored(incomplete, restore_by_mean(key, train, incomplete))
    for neighbours in (None, 2):
        restored = restore_by_hotdeck(key, train, incomplete, neighbours)
        check_restored(incomplete, restored)
        # Whatever is filled in is a number of the column, or its mean.
        values = np.where(train.available, train.x, fit_mean_of(train))
        missing = ~np.asarray(incomplete.available)
        for column in range(5):
            filled = np.asarray(restored.x)[missing[:, column], column]
            known = np.append(values[:, column], fit_mean_of(train)[column])
            distance = np.abs(filled[:, None] - known[None]).min(axis=1)
            assert np.all(distance <= 1e-5 * np.abs(known).max() + 1e-30)  # subnormal sums are 0


def fit_mean_of(train: Table) -> np.ndarray:
    available = np.asarray(train.available)
    total = np.where(available, np.asarray(train.x, float), 0).sum(axis=0)
    return total / np.maximum(available.sum(axis=0), 1)


# Treatments.


def test_complete_data_are_left_alone() -> None:
    complete = table(0, missing=0.0)
    assert treat(complete, "complete") is complete


def test_complete_is_refused_where_cells_are_missing() -> None:
    holes = Table([[1.0, float("nan")], [2.0, 3.0]], [0, 1])
    with pytest.raises(
        InputError, match=r"needs complete data, but 25.0% of the cells are missing; use 'restr"
    ):
        treat(holes, "complete")


def test_restricted_data_keep_their_holes() -> None:
    holes = table(0)
    assert treat(holes, "restricted") is holes


@pytest.mark.parametrize("given_", [{}, {"key": jr.key(0)}, {"restorer": pvae(see_label=True)}])
def test_restored_needs_a_restorer_and_a_key(given_: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="needs a fitted restorer= and a key="):
        treat(table(0), "restored", **given_)


def test_an_unknown_treatment_is_refused() -> None:
    untyped = inspect.unwrap(treat)  # without the tests' type checker, which would refuse it first
    with pytest.raises(
        InputError, match="no treatment is called 'deleted'; there are 'complete', 'restricted', 'rest"
    ):
        untyped(table(0), "deleted")


# The error on held-out cells.


class Spy:
    """Fills with a constant, and remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[Table] = []

    def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
        del key
        self.shown.append(table)
        return jnp.full(table.x.shape, 2.0)


@pytest.mark.parametrize("kind", ["complete", "whole groups", "parts of groups"])
def test_the_error_is_that_on_hidden_cells(kind: str) -> None:
    valid = table(3, n=N, missing=0.0 if kind == "complete" else 0.3)
    if kind == "whole groups":
        together = np.asarray(valid.available).copy()
        together[:, 3] = together[:, 4]
        valid = Table(np.random.default_rng(0).normal(size=(N, 5)), valid.y, together)
    means, spy = fit_mean(table(4)), Spy()
    found = held_out_error(jr.key(0), PROBLEM, spy, means, valid, rate=0.2)
    (shown,) = spy.shown
    x, available, seen = (np.asarray(a) for a in (valid.x, valid.available, shown.available))
    assert not np.any(seen & ~available)
    np.testing.assert_array_equal(np.asarray(shown.x), np.where(seen, x, 0))
    hidden = available & ~seen
    assert float(found.restorer) == pytest.approx(np.sqrt(np.mean((x - 2)[hidden] ** 2)), rel=1e-5)
    expected = np.sqrt(np.mean((x - np.asarray(means.means))[hidden] ** 2))
    assert float(found.mean) == pytest.approx(expected, rel=1e-5)
    # Actions that a row has are hidden as a whole, at the rate; what it has of others stays.
    has = (~available @ REVEALS.T) == 0
    lost = (hidden @ REVEALS.T) > 0
    assert not np.any(lost & ~has)
    np.testing.assert_array_equal(hidden, lost @ REVEALS)
    # 400 rows and 4 actions at most: five standard errors of a share are below 0.07.
    assert abs(lost.sum() / has.sum() - 0.2) < 0.07


def test_a_restorer_that_knows_has_no_error() -> None:
    valid = table(5, n=N, missing=0.0)

    class Oracle:
        def draw(self, key: PRNGKeyArray, table: Table) -> Float[Array, "instances features"]:
            del key, table
            return valid.x

    found = held_out_error(jr.key(0), PROBLEM, Oracle(), fit_mean(valid), valid)
    assert float(found.restorer) == 0 < float(found.mean)


def test_an_error_needs_something_to_hide() -> None:
    single = Table([[1.0, float("nan"), float("nan"), float("nan"), float("nan")]] * N, [0, 1] * (N // 2))
    with pytest.raises(InputError, match="no cell was held out"):
        held_out_error(jr.key(0), PROBLEM, fit_mean(single), fit_mean(single), single)
