"""The shortcut problem and its fast sampler."""

import numpy as np
import pytest
from scipy import stats

from ascertain import InputError, TooLargeError
from ascertain.exact import shortcut
from ascertain.exact._bits import BitRows
from ascertain.exact._shortcut import bernoulli_words, sample_bits
from ascertain.exact._study import Arm, Task, regrets_of

from .golden import FULL, RATE, REPLICATES

ALPHA = 1e-3  # the chance that a whole statistical test fails although all is well


def unpack(rows: BitRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unpack bit rows into x, y and availability."""
    bits = np.unpackbits(rows.cells.view(np.uint8), axis=1, bitorder="little").astype(int)
    is_row = np.unpackbits(rows.rows.view(np.uint8), bitorder="little").astype(bool)
    y = np.concatenate(
        [np.full(64 * (part.stop - part.start), label) for label, part in enumerate(rows.labels)]
    )
    return bits[1::2, is_row].T, y[is_row], (bits[::2] + bits[1::2])[:, is_row].T.astype(bool)


def test_the_problem_is_the_papers() -> None:
    problem = shortcut(d=10, budget=4)
    x, y = problem.atoms.x, problem.atoms.y
    names = {name: x[:, column] for column, name in enumerate(problem.feature_names)}
    block = [[names[f"branch{branch}.{place}"] for place in (1, 2, 3)] for branch in (0, 1)]
    parity = np.array([np.bitwise_xor.reduce(bits) for bits in block])
    np.testing.assert_array_equal(y, np.where(names["context"] == 0, parity[0], parity[1]))
    assert problem.atoms.probability[names["shortcut"] == y].sum() == 0.75
    assert problem.atoms.probability.sum() == 1
    assert dict(zip(problem.feature_names, problem.costs, strict=True))["shortcut"] == 4
    # The index order of the specification: the golden values depend on it.
    assert problem.feature_names == (
        "context", "branch0.1", "branch1.1", "shortcut", "branch0.2", "branch0.3", "branch1.2", "branch1.3",
        "noise1", "noise2",
    )  # fmt: skip


@pytest.mark.parametrize(("d", "budget", "n"), [(5, 2, 200_003), (7, 3, 200_003)])
def test_the_fast_sampler_draws_from_the_problem(d: int, budget: int, n: int) -> None:
    complete, masked = sample_bits(np.random.default_rng(1), d, budget, n, 0.3)
    x, y, everything = unpack(complete)
    assert everything.all()
    assert len(y) == n
    problem = shortcut(d, budget)
    code = 1 << np.arange(d)
    impossible = np.bincount(problem.atoms.x @ code, problem.atoms.y) != np.bincount(
        x @ code, y
    ) / np.maximum(np.bincount(x @ code, minlength=2**d), 1)
    assert not impossible.any()  # y is a function of x
    found = np.bincount(x @ code, minlength=2**d)
    expected = n * np.bincount(problem.atoms.x @ code, problem.atoms.probability)
    assert stats.chisquare(found, expected).pvalue > ALPHA
    # Masks are fair in every column, and independent of the values, the label and each other.
    x_masked, y_masked, available = unpack(masked)
    np.testing.assert_array_equal(y_masked, y)
    np.testing.assert_array_equal(x_masked[available], x[available])
    deviation = 5 * np.sqrt(0.3 * 0.7 / n)
    assert (abs(available.mean(axis=0) - 0.7) < deviation).all()
    together = np.column_stack([available, x, y])
    correlation = np.corrcoef(together, rowvar=False)[:d]
    assert (abs(correlation - np.eye(d, 2 * d + 1)) < 5 / np.sqrt(n)).all()


@pytest.mark.parametrize("probability", [0.0, 1e-9, 0.1, 0.25, 0.4, 0.5, 0.7, 1 - 2**-20, 1.0])
def test_bernoulli_words_have_the_right_rate(probability: float) -> None:
    words = bernoulli_words(np.random.default_rng(0), probability, (40, 500))
    n = 64 * words.size
    successes = int(np.bitwise_count(words).sum())
    assert stats.binomtest(successes, n, probability).pvalue > ALPHA
    by_bit = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert (
        abs(by_bit - probability) <= 6 * np.sqrt(probability * (1 - probability) / words.size) + 1e-4
    ).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "budget", "n"), [(6, 2, 10), (6, 2, 100), (6, 2, 1000), (8, 2, 10), (8, 2, 100), (10, 3, 316)]
)
def test_the_fast_sampler_agrees_with_the_golden_values(d: int, budget: int, n: int) -> None:
    replicates = 300
    rows = [
        row
        for replicate in range(replicates)
        for row in regrets_of(Task(Arm(d, budget, RATE), (n,), replicate, seed=0))
        if row.horizon == budget
    ]
    golden = FULL[d, budget, n]
    # Both means vary, and over a few approaches: a two-sample z interval with Bonferroni's correction.
    z = stats.norm.ppf(1 - ALPHA / (2 * len(golden)))
    for approach, expected in golden.items():
        regrets = np.array([row.regret for row in rows if row.approach == approach])
        assert len(regrets) == replicates
        # Two pseudo-replicates at either extreme (Agresti and Coull) where nearly all replicates agree.
        spread = np.append(regrets, [0, 0, 0.5, 0.5]).std(ddof=1)
        error = spread * np.sqrt(1 / replicates + 1 / REPLICATES)
        assert abs(regrets.mean() - expected) <= z * error + 5e-5


@pytest.mark.parametrize(
    ("d", "budget", "message"),
    [
        (6, 1, "budget must be a whole number of at least 2"),
        (5, 3, "d must be at least twice the budget"),
        (3, 2, "d must be"),
    ],
)
def test_bad_sizes(d: int, budget: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        shortcut(d, budget)
    with pytest.raises(InputError, match=message):
        sample_bits(np.random.default_rng(0), d, budget, 10, 0.5)


def test_too_many_dimensions() -> None:
    with pytest.raises(TooLargeError, match=r"d = 21 has 2\^21 atoms"):
        shortcut(21, 2)
