"""Permutation importance against scikit-learn's AUROC, and on labels of known causes."""

from functools import partial

import jax
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from ascertain import Problem, Table
from ascertain._core.effort import EFFORTS
from ascertain.methods import _permutation as permutation
from ascertain.methods._permutation import Settings, exchanged, macro_auroc
from ascertain.methods._static import Static

from .by_hand import FAST

auroc = jax.jit(macro_auroc, compiler_options=FAST)
exchange = jax.jit(exchanged, compiler_options=FAST)


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_auroc_is_scikit_learns(seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), size=40)
    if ties:
        p = (np.round(p * 4) + 1) / (np.round(p * 4) + 1).sum(axis=1, keepdims=True)
    p, y = p.astype(np.float32), np.concatenate([[0, 1, 2], rng.integers(0, 3, 37)])
    expected = np.mean([roc_auc_score(y == label, p[:, label]) for label in range(3)])
    assert float(auroc(p, y)) == pytest.approx(expected, abs=1e-5)


def test_classes_that_do_not_occur_do_not_count() -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(4), size=30).astype(np.float32)
    y = np.arange(30) % 2
    expected = np.mean([roc_auc_score(y == label, p[:, label]) for label in range(2)])
    assert float(auroc(p, y)) == pytest.approx(expected, abs=1e-5)
    assert float(auroc(p, np.zeros(30, int))) == 0


def test_values_are_exchanged_together_where_both_rows_have_them() -> None:
    source = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    target = -np.ones((500, 3), np.float32)
    revealed, has_source = np.array([1, 0, 1], bool), np.array([0, 1, 0, 1], bool)
    has_target = np.arange(500) % 5 > 0
    found = np.asarray(exchange(jr.key(0), revealed, source, has_source, target, has_target))
    assert np.all(found[~has_target] == -1)
    assert np.all(found[:, 1] == -1)
    rows, counts = np.unique(found[has_target][:, [0, 2]], axis=0, return_counts=True)
    assert rows.tolist() == [[3, 5], [9, 11]], "both values are of one row that has them"
    assert counts.min() > 140  # of 400; the probability of fewer is below 1e-8
    none = exchange(jr.key(0), revealed, source, np.zeros(4, bool), target, has_target)
    np.testing.assert_array_equal(none, target)


@partial(jax.jit, static_argnames="settings", compiler_options=FAST)
def fitted(problem: Problem, train: Table, valid: Table, settings: Settings) -> Static:
    policy = permutation.fit(jr.key(0), problem, train, valid, settings=settings)
    assert isinstance(policy, Static)
    return policy


def test_what_matters_more_comes_first_whatever_it_costs() -> None:
    """A logistic label of four features; the second action reveals two, each of half the weight."""
    rng = np.random.default_rng(0)
    weight = np.array([0.0, 1.2, 1.2, 4.0, 0.6])

    def table(n_rows: int) -> Table:
        x = rng.normal(size=(n_rows, 5))
        return Table(x, rng.random(n_rows) < 1 / (1 + np.exp(-x @ weight)), n_classes=2)

    reveals = np.zeros((4, 5), bool)
    reveals[[0, 1, 1, 2, 3], range(5)] = True
    problem = Problem(reveals, [1, 5, 9, 1], budget=9, n_classes=2)
    policy = fitted(problem, table(2000), table(2000), Settings(hidden=(16,), exchanges=3))
    assert np.argsort(np.asarray(policy.rank)).tolist() == [2, 1, 3, 0]


def test_less_effort_is_shorter_training() -> None:
    assert Settings().shortened(EFFORTS["low"], 12_800).epochs == 4
