"""The scores against scikit-learn's and against their definitions, on predictions with many ties."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as reference

from ascertain import InputError
from ascertain.metrics import confusion, measure, score_counts

from .evaluation_cases import Weighted, assert_same, weighted


@st.composite
def predictions(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Draw probabilities of few values, so that most are tied and some are 0 or 1, and labels."""
    n_rows, n_classes = draw(st.integers(1, 30)), draw(st.integers(2, 4))
    weights = st.lists(st.integers(0, 3), min_size=n_classes, max_size=n_classes).filter(any)
    drawn = np.array(draw(st.lists(weights, min_size=n_rows, max_size=n_rows)), np.float32)
    labels = st.lists(st.integers(0, draw(st.integers(0, n_classes - 1))), min_size=n_rows, max_size=n_rows)
    return drawn / drawn.sum(axis=1, keepdims=True), np.array(draw(labels))


def smooth(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw predictions without ties which are somewhat right."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[y]
    p = np.exp(logits)
    return (p / p.sum(axis=1, keepdims=True)).astype(np.float32), y


def rankings(p: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    found = measure(p, y)
    return found["auroc"], found["auprc"]


@settings(max_examples=100, deadline=None)
@given(predictions())
def test_accuracy_and_f1_are_scikit_learns(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = drawn
    predicted = p.argmax(axis=1)
    found = measure(p, y)
    assert found["accuracy"] == pytest.approx(reference.accuracy_score(y, predicted))
    f1 = reference.f1_score(y, predicted, average="macro", zero_division=0)
    assert found["f1"] == pytest.approx(f1)


@settings(max_examples=100, deadline=None)
@given(predictions())
def test_rankings_are_the_mean_of_scikit_learns_over_the_classes_that_occur(
    drawn: tuple[np.ndarray, np.ndarray],
) -> None:
    p, y = drawn
    occurring = np.unique(y)
    found = rankings(p, y)
    if len(occurring) == 1:
        assert np.isnan(found).all()
        return
    ranked = [1] if p.shape[1] == 2 else occurring
    auroc = [reference.roc_auc_score(y == label, p[:, label]) for label in ranked]
    auprc = [reference.average_precision_score(y == label, p[:, label]) for label in ranked]
    assert found == pytest.approx((np.mean(auroc), np.mean(auprc)), abs=1e-12)


def test_rankings_of_untied_rows_are_scikit_learns() -> None:
    p, y = smooth(500, 2)
    expected = (reference.roc_auc_score(y, p[:, 1]), reference.average_precision_score(y, p[:, 1]))
    assert rankings(p, y) == pytest.approx(expected)
    assert 0.6 < expected[0] < 0.95
    p, y = smooth(500, 5)
    auroc = reference.roc_auc_score(y, p, multi_class="ovr", average="macro")
    auprc = reference.average_precision_score(np.eye(5)[y], p, average="macro")
    assert rankings(p, y) == pytest.approx((auroc, auprc))


@settings(max_examples=50, deadline=None)
@given(predictions())
def test_log_loss_is_scikit_learns(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    # In single precision its probabilities are clipped at the same 1.2e-7; it also computes in it.
    p, y = drawn
    expected = reference.log_loss(y, y_proba=p, labels=np.arange(p.shape[1]))
    assert measure(p, y)["log_loss"] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_a_class_of_probability_zero_has_a_finite_loss() -> None:
    certain = np.array([[1.0, 0.0]])
    assert measure(certain, np.array([1]))["log_loss"] == pytest.approx(-np.log(2.0**-23))
    assert measure(certain, np.array([0]))["log_loss"] == 0


@settings(max_examples=50, deadline=None)
@given(predictions())
def test_brier_sums_the_squared_errors_of_all_classes(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    p, y = drawn
    errors = [(float(p[i, k]) - (y[i] == k)) ** 2 for i in range(len(y)) for k in range(p.shape[1])]
    assert measure(p, y)["brier"] == pytest.approx(sum(errors) / len(y), abs=1e-12)
    if p.shape[1] == 2:
        of_one = reference.brier_score_loss(y, p[:, 1], pos_label=1)
        assert measure(p, y)["brier"] == pytest.approx(2 * of_one, abs=1e-6)


def naive_calibration_error(p: np.ndarray, y: np.ndarray) -> float:
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    total = 0.0
    for number in range(15):
        within = (confidence > number / 15) & (confidence <= (number + 1) / 15)
        if within.any():
            total += within.mean() * abs(right[within].mean() - confidence[within].mean())
    return total


@pytest.mark.parametrize("classes", [2, 6])
def test_calibration_error_is_that_of_its_definition(classes: int) -> None:
    p, y = smooth(400, classes)
    assert measure(p, y)["ece"] == pytest.approx(naive_calibration_error(p.astype(float), y))
    assert measure(p, y)["ece"] > 0.02


def test_a_probability_at_the_edge_of_two_bins_belongs_to_the_lower() -> None:
    # 0.6 ends the ninth bin, which it shares with 0.56: |1 + 0 - 0.6 - 0.56| / 2 rows. In a bin each they
    # would make (0.4 + 0.56) / 2.
    p = np.array([[0.6, 0.4], [0.56, 0.44]])
    assert measure(p, np.array([0, 1]))["ece"] == pytest.approx(0.08)
    assert measure(np.array([[1.0, 0.0]]), np.array([0]))["ece"] == 0


def test_rows_of_one_class_have_no_ranking_but_all_other_scores() -> None:
    p, _ = smooth(50, 3)
    found = measure(p, np.zeros(50, int))
    assert np.isnan([found.pop("auroc"), found.pop("auprc")]).all()
    assert np.isfinite(list(found.values())).all()


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
def test_counts_are_scored_alike_by_numpy_and_jax_in_any_batch(
    metric: Literal["accuracy", "macro_f1"],
) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, (2, 3, 4, 4)) * (rng.random((2, 3, 4, 1)) < 0.7)
    counts[0, 0, 2], counts[0, 0, :, 2] = 0, 0  # one class neither occurs nor is predicted
    found = score_counts(counts, metric)
    for i, j in np.ndindex(2, 3):
        rows = np.repeat(np.indices((4, 4)).reshape(2, 16), counts[i, j].ravel(), axis=1)
        score = (
            reference.accuracy_score(*rows)
            if metric == "accuracy"
            else reference.f1_score(*rows, average="macro", zero_division=0)
        )
        assert found[i, j] == pytest.approx(score)
    inside = jax.jit(jax.vmap(lambda each: score_counts(each, metric)))(jnp.asarray(counts))
    assert isinstance(inside, jax.Array)
    np.testing.assert_allclose(inside, found, rtol=1e-6)


def test_counts_may_be_weights() -> None:
    counts = np.array([[2.0, 1.0, 0], [0, 3.0, 0], [0, 0, 0]])
    assert score_counts(counts, "macro_f1") == pytest.approx(score_counts(counts / 100, "macro_f1"))


def test_rows_are_counted_by_class_and_prediction() -> None:
    found = confusion(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]), 3)
    np.testing.assert_array_equal(found, [[1, 1, 0], [0, 1, 0], [1, 0, 0]])


def test_what_is_no_probability_is_refused() -> None:
    p, y = smooth(5, 3)
    for wrong in (np.nan, -0.1, 1.1):
        p[3, 1] = wrong
        with pytest.raises(InputError, match=r"class 1 in row 3 is .*, not between 0 and 1"):
            measure(p, y)


def test_labels_without_a_probability_are_refused() -> None:
    p, y = smooth(5, 3)
    y[2] = 3
    with pytest.raises(InputError, match=r"y\[2\] is 3, outside the classes 0 to 2"):
        measure(p, y)
    with pytest.raises(InputError, match="nothing to score"):
        measure(np.zeros((0, 3)), np.zeros(0, int))


# Weights


@settings(max_examples=40, deadline=None)
@given(weighted())
def test_equal_weights_give_the_plain_scores(drawn: Weighted) -> None:
    p, y, _ = drawn
    for weight in (1.0, 0.25):
        assert_same(measure(p, y, np.full(len(y), weight)), measure(p, y))


@settings(max_examples=40, deadline=None)
@given(weighted())
def test_a_whole_weight_is_that_of_repeated_rows(drawn: Weighted) -> None:
    p, y, counts = drawn
    assert_same(measure(p, y, 1.0 * counts), measure(np.repeat(p, counts, axis=0), np.repeat(y, counts)))


@settings(max_examples=25, deadline=None)
@given(weighted())
def test_a_negative_weight_takes_a_row_away(drawn: Weighted) -> None:
    p, y, counts = drawn
    twice = np.concatenate([p, p]), np.concatenate([y, y])
    found = measure(*twice, np.concatenate([counts + 2.0, np.full(len(y), -2.0)]))
    assert_same(found, measure(np.repeat(p, counts, axis=0), np.repeat(y, counts)))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "weights has 1 entries for 2 predictions"),
        ([1.0, -1.0], "their sum above 0"),
        ([1.0, float("nan")], "finite"),
    ],
)
def test_impossible_weights_are_refused(weights: list[float], message: str) -> None:
    p = np.array([[0.4, 0.6], [0.2, 0.8]])
    with pytest.raises(InputError, match=message):
        measure(p, np.array([0, 1]), np.array(weights))
