"""Scorers that follow the policy: equal to a rollout by hand, and of use in a search over budgets."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ascertain import AcquisitionClassifier, InputError, scorers
from tests.estimator_cases import quick

COSTS = {"a": 1.0, "b": 2.0, "c": 1.0}


def rows(n: int, seed: int, missing: float = 0.0) -> tuple[pd.DataFrame, np.ndarray]:
    """Three columns that tell the same amount about the class, independently of each other."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.normal(size=(n, 3)) + 1.2 * y[:, None]
    x[rng.random(x.shape) < missing] = np.nan
    return pd.DataFrame(x, columns=list(COSTS)), np.array(["no", "yes"])[y]


@pytest.fixture(scope="module")
def fitted() -> AcquisitionClassifier:
    return quick(costs=COSTS, budget=3, restorer="hotdeck").fit(*rows(300, seed=0, missing=0.2))


def followed(model: AcquisitionClassifier, table: pd.DataFrame, budget: float) -> pd.DataFrame:
    """Ask for one measurement at a time and make it, until the model stops."""
    seen = table * np.nan
    for _ in range(table.shape[1]):
        spent, advice = seen.notna() @ pd.Series(COSTS), model.recommend(seen)
        for row, (action, cost) in enumerate(zip(advice["action"], advice["cost"], strict=True)):
            if action is not None and spent[row] + cost <= budget:
                seen.loc[row, action] = table.loc[row, action]
    return seen


def test_the_score_of_complete_rows_is_that_of_a_rollout_by_hand(fitted: AcquisitionClassifier) -> None:
    table, y = rows(60, seed=1)
    seen = followed(fitted, table, budget=3)
    assert (seen.notna() @ pd.Series(COSTS)).max() <= 3
    assert seen.isna().any(axis=None)  # what is on file is more than what the policy buys
    probabilities = fitted.predict_proba(seen)
    expected = {
        scorers.policy_accuracy: accuracy_score(y, fitted.predict(seen)),
        scorers.policy_auroc: roc_auc_score(y, probabilities[:, 1]),
        scorers.policy_neg_log_loss: -log_loss(y, probabilities),
        scorers.policy_neg_mean_cost: -(seen.notna() @ pd.Series(COSTS)).mean(),
    }
    for scorer, score in expected.items():
        assert scorer(fitted, table, y) == pytest.approx(score, abs=1e-6)
    assert fitted.score(table, y) == pytest.approx(expected[scorers.policy_accuracy])
    assert fitted.score(table, y) != accuracy_score(y, fitted.predict(table))


@pytest.mark.slow
def test_another_budget_and_estimator_can_be_asked_for(fitted: AcquisitionClassifier) -> None:
    table, y = rows(200, seed=2, missing=0.3)
    estimates = fitted.evaluate(table, y, [1.0]).query("metric == 'auroc'")
    by_estimator = estimates.set_index("estimator")["estimate"]
    for estimator in ("ipw", "dr"):
        found = scorers.PolicyScorer("auroc", estimator=estimator, budget=1.0)(fitted, table, y)
        # The scorer uses fewer draws: what a draw adds to an AUROC of 200 rows is below 1/20.
        assert found == pytest.approx(by_estimator[estimator], abs=0 if estimator == "ipw" else 0.05)
    nothing = scorers.PolicyScorer("mean_cost", estimator="restricted", budget=0.0)
    assert nothing(fitted, table, y) == 0


def test_too_few_rows_are_scored_as_they_are_with_a_warning(fitted: AcquisitionClassifier) -> None:
    table, y = rows(20, seed=3, missing=0.4)
    with pytest.warns(UserWarning, match="effective rows.*of rows as they are"):
        found = fitted.score(table, y)
    assert found == fitted.score(table, y, estimator="restricted")
    with pytest.raises(InputError, match="An estimate needs 30 effective rows"):
        fitted.score(table, y, estimator="dr")


@pytest.mark.slow
def test_a_search_over_budgets_prefers_more_information() -> None:
    table, y = rows(600, seed=4, missing=0.1)
    scaled = make_pipeline(StandardScaler(), quick(costs=[1, 2, 1]))
    grid = {"acquisitionclassifier__budget": [1, 4]}
    search = GridSearchCV(scaled, grid, cv=2, scoring=scorers.policy_auroc, refit=False).fit(table, y)
    # Classes are 1.2 deviations apart in each column: AUROC = Phi(1.2 / sqrt(2)) = .802 of one, and
    # Phi(1.2 sqrt(3 / 2)) = .929 of all. Standard errors with 600 rows are below .02; three of them.
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], [0.802, 0.929], atol=0.06)
    by_default = GridSearchCV(quick(costs=COSTS), {"budget": [1, 4]}, cv=2).fit(table, y)
    assert by_default.best_params_ == {"budget": 4}
    assert scorers.policy_accuracy(by_default, table, y) == by_default.score(table, y)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: scorers.PolicyScorer("xyzzy"), "'decision_cost', 'total_cost'"),
        (lambda: scorers.PolicyScorer("auc"), "no metric is called 'auc'; did you mean"),
        (lambda: scorers.policy_auroc(HistGradientBoostingClassifier(), [[0.0]], [0]), "has no policy"),
    ],
)
def test_mistakes_are_named(wrong: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wrong()


def test_mistakes_in_a_score_are_named(fitted: AcquisitionClassifier) -> None:
    table, y = rows(30, seed=1)
    with pytest.raises(InputError, match="no metric is called 'accuraci'; did you mean 'accuracy'"):
        fitted.score(table, y, metric="accuraci")
    with pytest.raises(InputError, match="no estimator is called 'drr'; did you mean 'dr'"):
        fitted.score(table, y, estimator="drr")


def test_cross_validation_takes_them() -> None:
    table, y = rows(160, seed=5)
    found = cross_val_score(quick(costs=COSTS, budget=1), table, y, cv=2, scoring=scorers.policy_f1)
    assert ((found > 0.5) & (found < 0.9)).all()  # one column of 1.2 deviations: .73, standard error .05
