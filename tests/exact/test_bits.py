"""Counting by bit sets equals counting in a loop over rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain.exact import Observations
from ascertain.exact import _bits as bits_module
from ascertain.exact._bits import count_first_available, count_states

from .reference import Instance
from .strategies import finite, instances, observations


def matching(data: Observations, state: np.ndarray) -> np.ndarray:
    """Which rows are known to match a state."""
    known = np.where(data.available, data.x, -1)
    return ((state < 0) | (known == state)).all(axis=1)


@given(st.data(), instances())
@settings(max_examples=40, deadline=None)
def test_counts_equal_a_loop_over_rows(data: st.DataObject, instance: Instance) -> None:
    problem = finite(instance)
    sample = data.draw(observations(instance, max_rows=200))
    counts = count_states(problem.bit_rows(sample), problem.space)
    complete = count_states(problem.bit_rows(sample).complete(), problem.space)
    has_all = sample.available.all(axis=1)
    for state, values in enumerate(problem.space.values):
        rows = matching(sample, values)
        expected = np.bincount(sample.y[rows], minlength=instance.n_labels)
        np.testing.assert_array_equal(counts[state], expected)
        expected = np.bincount(sample.y[rows & has_all], minlength=instance.n_labels)
        np.testing.assert_array_equal(complete[state], expected)


@given(st.data(), instances())
@settings(max_examples=40, deadline=None)
def test_first_available_counts_equal_a_loop_over_rows(data: st.DataObject, instance: Instance) -> None:
    problem, d = finite(instance), len(instance.n_values)
    sample = data.draw(observations(instance, max_rows=200))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    states = np.flatnonzero(rng.random(len(problem.space)) < 0.7)
    order = np.stack([rng.permutation(d) for _ in states]) if len(states) else np.zeros((0, d), int)
    order[np.arange(d) >= rng.integers(0, d + 1, (len(states), 1))] = -1
    counts = count_first_available(problem.bit_rows(sample), problem.space, states, order)
    for state, actions, found in zip(states, order, counts, strict=True):
        expected = [0] * d
        for has in sample.available[matching(sample, problem.space.values[state])]:
            ranks = [rank for rank, action in enumerate(actions) if action >= 0 and has[action]]
            if ranks:
                expected[ranks[0]] += 1
        assert found.tolist() == expected


def test_counts_do_not_depend_on_the_block_size(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    from ascertain.exact import shortcut

    problem = shortcut(6, 2)
    rows = problem.bit_rows(problem.sample(np.random.default_rng(0), 5000, 0.4))
    whole = count_states(rows, problem.space)
    monkeypatch.setattr(bits_module, "_BLOCK_WORDS", 100)  # one or two words at a time
    np.testing.assert_array_equal(count_states(rows, problem.space), whole)
