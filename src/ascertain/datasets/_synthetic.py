"""The CUBE family: synthetic datasets in which three features, chosen by the class, spell the class."""

from collections.abc import Callable

import numpy as np

from ascertain._core.checks import check_count, check_numbers
from ascertain.datasets._dataset import Dataset, Preprocessing, RawRows
from ascertain.errors import InputError
from ascertain.problem import Problem

N_CLASSES = 8
_BLOCK = 10  # features that carry a code
_MEAN = 0.5  # of features that carry nothing


def cube(
    n_rows: int = 1000, *, n_features: int = 20, informative_noise: float = 0.3, other_noise: float = 0.3
) -> Dataset:
    """CUBE: features c, c + 1 and c + 2 hold the three bits of the class c, least significant first.

    Parameters
    ----------
    n_rows
        How many rows to draw.
    n_features
        At least ten, the first ten of which carry the code; the rest is noise.
    informative_noise
        The standard deviation of the noise on the three code features.
    other_noise
        The standard deviation of all other features about 0.5.

    Examples
    --------
    >>> cube(100).draw(0).x.shape
    (100, 20)
    """
    _check(n_rows, informative_noise, other_noise)
    check_count("n_features", n_features, least=_BLOCK)

    def draw(seed: int) -> RawRows:
        rng = np.random.default_rng(seed)
        y = rng.integers(0, N_CLASSES, n_rows)
        x = rng.normal(_MEAN, other_noise, (n_rows, n_features))
        _write_code(rng, x, y, np.zeros(n_rows, int), informative_noise)
        return RawRows(x, y)

    names = [f"x{i}" for i in range(n_features)]
    return _dataset("cube", np.eye(n_features), np.ones(n_features), (3, 5, 10), names, names, draw)


def cube_nm(
    n_rows: int = 1000,
    *,
    n_contexts: int = 5,
    context_noise: float = 0.1,
    informative_noise: float = 0.3,
    other_noise: float = 0.3,
) -> Dataset:
    """CUBE-NM: a context, acquired as one action, says which of several blocks holds the code.

    Parameters
    ----------
    n_rows, informative_noise, other_noise
        As for `cube`.
    n_contexts
        How many contexts, each with a block of ten features.
    context_noise
        The standard deviation of the noise on the one-hot context.

    Examples
    --------
    >>> cube_nm(n_contexts=3).problem.action_names[0]
    'context'
    """
    _check(n_rows, informative_noise, other_noise, context_noise)
    check_count("n_contexts", n_contexts, least=2)
    n_features = n_contexts + _BLOCK * n_contexts

    def draw(seed: int) -> RawRows:
        rng = np.random.default_rng(seed)
        context = rng.integers(0, n_contexts, n_rows)
        y = rng.integers(0, N_CLASSES, n_rows)
        x = rng.normal(_MEAN, other_noise, (n_rows, n_features))
        x[:, :n_contexts] = rng.normal(np.eye(n_contexts)[context], context_noise)
        _write_code(rng, x, y, n_contexts + _BLOCK * context, informative_noise)
        return RawRows(x, y)

    contexts = [f"context{i}" for i in range(n_contexts)]
    others = [f"block{k}.{i}" for k in range(n_contexts) for i in range(_BLOCK)]
    reveals = np.eye(n_features)[n_contexts - 1 :]
    reveals[0, :n_contexts] = 1
    costs = np.ones(len(reveals))  # the context's features cost 1/n each, and are bought together
    actions = ["context", *others]
    return _dataset("cube_nm", reveals, costs, (3, 5, 7, 10, 14), actions, contexts + others, draw)


def cube_nuc(
    n_rows: int = 1000,
    *,
    cost_ratio: float = 2.0,
    informative_noise: float = 0.3,
    other_noise: float = 0.3,
) -> Dataset:
    """CUBE-NUC: two independently noisy copies of CUBE's ten features, one more costly than the other.

    Parameters
    ----------
    n_rows, informative_noise, other_noise
        As for `cube`.
    cost_ratio
        How many times as costly the second copy is; costs are scaled to a mean of 1.

    Examples
    --------
    >>> sorted(set(cube_nuc(cost_ratio=3).problem.costs.tolist()))
    [0.5, 1.5]
    """
    _check(n_rows, informative_noise, other_noise)
    if not 0 < check_numbers("cost_ratio", cost_ratio, ndim=0) < np.inf:
        raise InputError(f"cost_ratio must be above 0, got {cost_ratio}")

    def draw(seed: int) -> RawRows:
        rng = np.random.default_rng(seed)
        y = rng.integers(0, N_CLASSES, n_rows)
        x = rng.normal(_MEAN, other_noise, (n_rows, 2 * _BLOCK))
        for copy in (0, 1):
            _write_code(rng, x, y, np.full(n_rows, copy * _BLOCK), informative_noise)
        return RawRows(x, y)

    weights = np.repeat([1.0, cost_ratio], _BLOCK)
    names = [f"{copy}{i}" for copy in ("cheap", "dear") for i in range(_BLOCK)]
    costs = weights / weights.mean()
    return _dataset("cube_nuc", np.eye(2 * _BLOCK), costs, (2, 4, 7), names, names, draw)


def cube_noiseless() -> Dataset:
    """CUBE without noise on the code."""
    return cube(informative_noise=0.0)


def cube_nm_noiseless() -> Dataset:
    """CUBE-NM without noise on context and code."""
    return cube_nm(context_noise=0.0, informative_noise=0.0)


def cube_nuc_noiseless() -> Dataset:
    """CUBE-NUC without noise on the code."""
    return cube_nuc(informative_noise=0.0)


def _write_code(
    rng: np.random.Generator, x: np.ndarray, y: np.ndarray, start: np.ndarray, noise: float
) -> None:
    """Write the bits of each row's class into its block: at positions y, y + 1, y + 2 from `start`."""
    position = (start + y)[:, None] + np.arange(3)
    bits = (y[:, None] >> np.arange(3)) & 1
    np.put_along_axis(x, position, rng.normal(bits, noise), axis=1)


def _check(n_rows: int, *noise: float) -> None:
    check_count("n_rows", n_rows, least=10)
    for deviation in noise:
        if not 0 <= check_numbers("noise", deviation, ndim=0) < np.inf:
            raise InputError(f"a noise level must be finite and at least 0, got {deviation}")


def _dataset(
    name: str,
    reveals: np.ndarray,
    costs: np.ndarray,
    budgets: tuple[float, ...],
    actions: list[str],
    features: list[str],
    draw: Callable[[int], RawRows],
) -> Dataset:
    names = {
        "action_names": actions,
        "feature_names": features,
        "class_names": list(map(str, range(N_CLASSES))),
    }
    return Dataset(
        name,
        Problem(reveals, costs, budgets[-1], N_CLASSES, **names),
        budgets,
        draw,
        metric="accuracy",
        stratified=False,
        preprocessing=Preprocessing(scale=False),
        source="synthetic; the paper's experimental details and its reference implementation, AFABench",
        licence="none needed",
    )
