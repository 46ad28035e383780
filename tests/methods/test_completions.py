"""Methods on tables with several completions of every row: they count rows, and cost what they did."""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array

from ascertain import PAPER, Problem, Protocol, Table
from ascertain.methods import _aaco as aaco
from ascertain.methods import _aaco_nn as aaco_nn
from ascertain.methods import _dime as dime
from ascertain.methods import _gdfs as gdfs
from ascertain.methods import _greedy as greedy
from ascertain.methods import get, names
from ascertain.methods._planner import row_folds
from ascertain.protocol import AFABENCH
from ascertain.testing._cases import FEATURES, TRAIN_ROWS, plain, probe

from .by_hand import FAST
from .short_settings import SHORT

ROWS, COMPLETIONS = 12, 4
PROBLEM = Problem(np.eye(4), np.ones(4), budget=3, n_classes=2)


def completed(completions: int = COMPLETIONS, rows: int = ROWS) -> Table:
    """Rows of which half the cells are the same in all completions."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4))
    table = Table(x, x[:, 0] > 0, rng.random(x.shape) < 0.5, n_classes=2, ids=100 + np.arange(rows))
    return table.completed(jnp.asarray(rng.normal(size=(completions, rows, 4)), jnp.float32))


class Logistic(eqx.Module):
    weights: Array

    def __call__(self, x: Array, observed: Array) -> Array:
        evidence = jnp.where(observed, x, 0.0) @ self.weights
        return jax.nn.softmax(jnp.stack([-evidence, evidence], axis=1))


JUDGE = Logistic(jnp.asarray([2.0, -1.0, 1.5, 0.5]))


# AACO's neighbours are instances.


def queries() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(20, 4)).astype(np.float32), rng.random((20, 4)) < 0.6


def brute_force(table: Table, x: np.ndarray, observed: np.ndarray, wanted: int) -> list[tuple[int, float]]:
    """The nearest row of each instance with its distance, nearest instances first; in plain loops."""
    rows, ids = np.asarray(table.x, np.float64), np.asarray(table.ids)
    best: dict[int, tuple[float, int]] = {}
    for number, (row, instance) in enumerate(zip(rows, ids.tolist(), strict=True)):
        distance = float(np.mean((row - x)[observed] ** 2)) if observed.any() else np.inf
        best[instance] = min(best.get(instance, (np.inf, number)), (distance, number))
    return [(number, distance) for distance, number in sorted(best.values())[:wanted]]


@pytest.mark.parametrize("wanted", [5, ROWS, 2 * ROWS])
def test_the_nearest_are_different_instances(wanted: int) -> None:
    table = completed()
    several = 0
    for x, observed in zip(*queries(), strict=True):
        found = aaco.nearest_instances(jnp.asarray(x), jnp.asarray(observed), table, wanted)
        minus, rows = (np.asarray(each) for each in found)
        assert len(rows) == min(wanted, ROWS) == len(set((rows % ROWS).tolist()))
        expected = brute_force(table, x, observed, wanted)
        if observed.any():
            assert rows.tolist() == [number for number, _ in expected]
        np.testing.assert_allclose(-minus, [distance for _, distance in expected], rtol=1e-5)
        distance = np.asarray(aaco.shared_distance(jnp.asarray(x), jnp.asarray(observed), table))
        several += len({number % ROWS for number in np.argsort(distance)[:wanted].tolist()}) < len(rows)
    assert several > 0, "or else the nearest rows would do as well"


def test_one_completion_has_the_neighbours_that_it_had() -> None:
    table = completed(1)
    for x, observed in zip(*queries(), strict=True):
        found = aaco.nearest_instances(jnp.asarray(x), jnp.asarray(observed), table, 5)
        distance = aaco.shared_distance(jnp.asarray(x), jnp.asarray(observed), table)
        for ours, plain_search in zip(found, jax.lax.top_k(-distance, 5), strict=True):
            np.testing.assert_array_equal(ours, plain_search)


@pytest.mark.parametrize("protocol", [PAPER, AFABENCH], ids=lambda each: each.name)
def test_the_teacher_leaves_out_every_completion_of_its_own_row(protocol: Protocol) -> None:
    """It is AACO on the other instances, whichever completion of its row it looks at."""
    table = completed()
    settings = aaco_nn.Settings(neighbours=3, candidates=10, candidate_seed=1)
    rows = np.random.default_rng(2).permutation(ROWS * COMPLETIONS)
    acquired = jnp.asarray(np.random.default_rng(3).random((len(rows), 4)) < 0.5)
    looked_at = table.take(jnp.asarray(rows))
    observed = PROBLEM.observed(acquired)

    @partial(jax.jit, compiler_options=FAST)
    def taught() -> tuple[Array, aaco.AACO]:
        whole = aaco.fit(
            jr.key(0), PROBLEM, table, table, predictor=JUDGE, settings=settings, protocol=protocol
        )
        teacher = aaco_nn.Teacher(whole, jnp.asarray(rows))
        return teacher(looked_at.x, observed, acquired, acquired, key=jr.key(0)), whole

    @partial(jax.jit, compiler_options=FAST)
    def alone(others: Table, whole: aaco.AACO, x: Array, observed: Array, acquired: Array) -> Array:
        less = eqx.tree_at(lambda policy: policy.table, whole, others)
        return less(x[None], observed[None], acquired[None], acquired[None], key=jr.key(0))[0]

    found, whole = taught()
    for place, row in enumerate(rows.tolist()):
        others = np.flatnonzero(np.arange(ROWS * COMPLETIONS) % ROWS != row % ROWS)
        rest = table.take(jnp.asarray(others)).counted(COMPLETIONS)
        expected = alone(rest, whole, looked_at.x[place], observed[place], acquired[place])
        np.testing.assert_allclose(found[place], expected, rtol=1e-5)


def test_aaco_is_imitated_on_one_completion_of_every_row() -> None:
    table = completed()
    settings = aaco_nn.Settings(neighbours=3, candidates=10, steps=3)

    @partial(jax.jit, compiler_options=FAST)
    def shown() -> aaco_nn.Demonstrations:
        whole = aaco.fit(jr.key(0), PROBLEM, table, table, predictor=JUDGE, settings=settings)
        return aaco_nn.imitate(jr.key(1), whole, settings)

    rows = np.unique(np.asarray(shown().row))
    assert sorted((rows % ROWS).tolist()) == list(range(ROWS))
    assert len(set((rows // ROWS).tolist())) > 1


# Folds, epochs, and how many batches they have.


def test_completions_of_a_row_are_in_the_same_fold() -> None:
    folds = np.asarray(row_folds(completed(), 5)).reshape(COMPLETIONS, ROWS)
    assert (folds == folds[0]).all()
    assert len(set(folds[0].tolist())) > 1


@pytest.mark.parametrize("completions", [1, 6])
def test_an_epoch_has_one_completion_of_every_row(completions: int) -> None:
    n_rows, size = 20, 4
    table = completed(completions, n_rows)

    def step(carry: tuple[Array, Array], key: Array, rows: Array) -> tuple[Array, Array]:
        del key
        return carry[0] + 1, carry[1].at[rows].add(1)

    start = (jnp.asarray(0), jnp.zeros(n_rows * completions, int))
    batches, times = greedy.epoch(jr.key(0), start, step, table, size)
    assert int(batches) == n_rows // size, "as many batches as with one completion"
    np.testing.assert_array_equal(times.reshape(completions, n_rows).sum(axis=0), np.ones(n_rows))
    assert np.count_nonzero(times.reshape(completions, n_rows).sum(axis=1)) == min(completions, 6)


@pytest.mark.parametrize("completions", [1, 6])
def test_an_epoch_may_pass_over_the_rows_several_times(completions: int) -> None:
    n_rows, passes = 20, 3
    table = completed(completions, n_rows)

    def step(times: Array, key: Array, rows: Array) -> Array:
        del key
        return times.at[rows].add(1)

    start = jnp.zeros(n_rows * completions, int)
    times = np.asarray(greedy.epoch(jr.key(0), start, step, table, 4, passes)).reshape(completions, n_rows)
    np.testing.assert_array_equal(times.sum(axis=0), np.full(n_rows, passes))
    if completions > 1:
        assert np.mean(times.max(axis=0) < passes) > 0.5, "passes take different completions"


@pytest.mark.parametrize("method", [gdfs, dime], ids=["gdfs", "dime"])
def test_updates_do_not_grow_with_completions(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batches of all epochs, those of pretraining included, counted while the program is traced."""
    settings = replace(SHORT[method.__name__.rpartition("_")[2]], batch_size=5)
    counted: list[int] = []
    scan = jax.lax.scan

    def count(body: Any, init: Any, xs: Any = None, *given: Any, **options: Any) -> Any:
        counted.append(options["length"] if xs is None else jax.tree.leaves(xs)[0].shape[0])
        return scan(body, init, xs, *given, **options)

    monkeypatch.setattr(jax.lax, "scan", count)

    def scans(completions: int) -> list[int]:
        counted.clear()
        table = completed(completions, rows=20)
        jax.eval_shape(lambda: method.fit(jr.key(0), PROBLEM, table, completed(1), settings=settings))
        return list(counted)

    once = scans(1)
    assert 20 // 5 in once
    assert scans(6) == once


# Every method.


def several(case: Any) -> Any:
    """The same case with three completions of its training rows."""
    drawn = case.train.x[None] + 0.1 * jr.normal(jr.key(5), (3, *case.train.x.shape))
    holes = jr.bernoulli(jr.key(6), 0.5, case.train.x.shape)
    return case._replace(train=case.train.with_cells(case.train.x, ~holes).completed(drawn))


def fitted(name: str, case: Any) -> Any:
    """The policy that `fit` gives, and its scores of some states; to be compiled or traced."""
    method = get(name)
    settings = SHORT.get(name) or method.completed(method.settings(), case.problem, PAPER)
    key, problem, train, valid, predictor = case
    policy = method.fit(
        key,
        problem,
        train,
        valid,
        predictor=predictor,
        pretrained=None,
        settings=settings,
        state=method.states[-1],
        protocol=PAPER,
    )
    return eqx.filter(policy, eqx.is_array), policy.at(problem.budget)(*probe(case, 0), key=jr.key(0))


@pytest.mark.parametrize("name", names())
def test_policies_of_several_completions_have_the_same_structure(name: str) -> None:
    """Only traced. A policy that keeps rows has all completions of them."""
    case = plain(FEATURES)
    one, many = (jax.eval_shape(lambda c=c: fitted(name, c)) for c in (case, several(case)))
    shapes = [[leaf.shape for leaf in jax.tree.leaves(each)] for each in (one, many)]
    expected = [tuple(3 * n if n == TRAIN_ROWS else n for n in shape) for shape in shapes[0]]
    assert shapes[1] == (expected if get(name).keeps_rows else shapes[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_every_method_learns_from_several_completions(name: str) -> None:
    policy, scores = jax.jit(partial(fitted, name), compiler_options=FAST)(several(plain(FEATURES)))
    for leaf in (scores, *jax.tree.leaves(eqx.filter(policy, eqx.is_inexact_array))):
        assert not np.isnan(leaf).any()
    assert np.isfinite(np.asarray(scores)[:, 1:]).any() or name == "stop"
