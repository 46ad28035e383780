"""Random finite problems and training sets for property tests."""

import numpy as np
from hypothesis import strategies as st

from ascertain.exact import FiniteProblem, Observations

from .reference import Instance


@st.composite
def instances(draw: st.DrawFn, max_features: int = 4) -> Instance:
    """Draw a problem with mixed numbers of values, random costs (some free) and impossible instances."""
    n_values = tuple(draw(st.lists(st.integers(2, 3), min_size=1, max_size=max_features)))
    n_labels = draw(st.integers(2, 3))
    shape = (*n_values, n_labels)
    seed = draw(st.integers(0, 2**32 - 1))
    weights = np.random.default_rng(seed).integers(0, 5, shape)
    weights.flat[0] += 1
    joint = weights / weights.sum()
    costs = draw(
        st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 3.0]), min_size=len(n_values), max_size=len(n_values))
    )
    budget = draw(
        st.sampled_from(sorted({max(min(costs), 0.1), 1.0, 2.0, 3.5, sum(costs) or 1.0})).filter(
            lambda b: b >= min(costs)
        )
    )
    atoms = {(index[:-1], index[-1]): float(joint[index]) for index in np.ndindex(shape) if joint[index] > 0}
    return Instance(atoms, n_values, n_labels, costs, budget)


def finite(instance: Instance) -> FiniteProblem:
    joint = np.zeros((*instance.n_values, instance.n_labels))
    for (x, y), probability in instance.joint.items():
        joint[(*x, y)] = probability
    return FiniteProblem(joint, costs=instance.costs, budget=instance.budget)


@st.composite
def observations(draw: st.DrawFn, instance: Instance, max_rows: int = 40) -> Observations:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, max_rows)), len(instance.n_values)
    x = rng.integers(0, instance.n_values, (n, d))
    y = rng.integers(0, instance.n_labels, n)
    return Observations(x, y, rng.random((n, d)) >= draw(st.sampled_from([0.0, 0.3, 0.7])))
