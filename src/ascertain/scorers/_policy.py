"""The scorer class, and a scorer for each metric."""

from dataclasses import dataclass
from typing import Any

from ascertain.errors import InputError
from ascertain.estimator import AcquisitionClassifier
from ascertain.evaluation._decision_scores import DECISION_METRICS
from ascertain.evaluation._policy_scores import check_score_names

_SMALLER_IS_BETTER = (
    *("log_loss", "brier", "ece", "mean_cost", "mean_acquisitions", "forced_stop_rate"),
    *DECISION_METRICS,
)


@dataclass(frozen=True)
class PolicyScorer:
    """Scores predictions after a policy's acquisitions; larger is better, as scikit-learn wants it.

    Call it with a fitted `AcquisitionClassifier`, rows and classes, or pass it as `scoring=` to
    `GridSearchCV`, `cross_val_score` and the like. The classifier may be the last step of a pipeline.

    Parameters
    ----------
    metric
        One of those of `AcquisitionClassifier.evaluate`. Where smaller values are better, the score is the
        negative one.
    estimator
        How rows with holes are scored: `"auto"`, `"dr"`, `"ipw"` or `"restricted"`; see
        `AcquisitionClassifier.score`.
    budget
        What may be spent on each row; by default what each classifier was fitted for.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from ascertain import AcquisitionClassifier
    >>> search = GridSearchCV(
    ...     AcquisitionClassifier(), {"budget": [2, 4, 8]}, scoring=PolicyScorer("auroc", estimator="ipw")
    ... )

    There is one for each metric. Here they score a policy that buys the only column there is:

    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> ill = rng.integers(2, size=80)
    >>> rows = (ill + rng.normal(0, 0.3, size=80))[:, None]
    >>> model = AcquisitionClassifier(
    ...     method="sequential", restorer="mean", predictor=DecisionTreeClassifier(max_depth=2), budget=1,
    ...     decision_costs={0: {1: 1}, 1: {0: 10}}, effort="low", random_state=0,
    ... ).fit(rows, ill)
    >>> for scorer in (policy_accuracy, policy_f1, policy_auroc, policy_auprc):
    ...     print(scorer.metric, bool(0.8 < scorer(model, rows, ill) <= 1))
    accuracy True
    f1 True
    auroc True
    auprc True

    Where smaller values are better, the sign is changed:

    >>> for scorer in (policy_neg_log_loss, policy_neg_brier, policy_neg_mean_cost):
    ...     print(scorer.metric, scorer(model, rows, ill) < 0)
    log_loss True
    brier True
    mean_cost True

    Those of decisions are for classifiers with `decision_costs`:

    >>> decisions, total = policy_neg_decision_cost(model, rows, ill), policy_neg_total_cost(model, rows, ill)
    >>> bool(np.isclose(total, decisions - 1))  # and what was spent
    True
    """

    metric: str = "accuracy"
    estimator: str = "auto"
    budget: float | None = None

    def __post_init__(self) -> None:
        check_score_names(self.metric, self.estimator)

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Score a fitted classifier on rows that it was not fitted to."""
        model, rows = _last_step(estimator, X)
        found = model.score(
            rows, y, sample_weight, metric=self.metric, estimator=self.estimator, budget=self.budget
        )
        return -found if self.metric in _SMALLER_IS_BETTER else found


def _last_step(estimator: Any, X: Any) -> tuple[AcquisitionClassifier, Any]:  # noqa: N803
    """The classifier, and the rows as it takes them; pipelines and searches are opened."""
    if hasattr(estimator, "best_estimator_"):
        return _last_step(estimator.best_estimator_, X)
    if hasattr(estimator, "steps"):
        return _last_step(estimator[-1], estimator[:-1].transform(X) if len(estimator.steps) > 1 else X)
    if not isinstance(estimator, AcquisitionClassifier):
        raise InputError(
            f"{type(estimator).__name__} has no policy to follow; these scorers are for AcquisitionClassifier"
        )
    return estimator, X


policy_accuracy = PolicyScorer("accuracy")
"""Share of right predictions; see `PolicyScorer`, and `examples/grid_search.py`."""
policy_f1 = PolicyScorer("f1")
"""F1 averaged over the classes; see `PolicyScorer`."""
policy_auroc = PolicyScorer("auroc")
"""Area under the ROC curve; see `PolicyScorer`, and `examples/grid_search.py`."""
policy_auprc = PolicyScorer("auprc")
"""Average precision; see `PolicyScorer`."""
policy_neg_log_loss = PolicyScorer("log_loss")
"""Minus the log loss; see `PolicyScorer`."""
policy_neg_brier = PolicyScorer("brier")
"""Minus the Brier score; see `PolicyScorer`."""
policy_neg_mean_cost = PolicyScorer("mean_cost")
"""Minus what is spent on acquisitions; see `PolicyScorer`, and `examples/grid_search.py`."""
policy_neg_decision_cost = PolicyScorer("decision_cost")
"""Minus the mean cost of decisions, for classifiers with `decision_costs`; see `PolicyScorer`."""
policy_neg_total_cost = PolicyScorer("total_cost")
"""Minus the mean cost of decisions and acquisitions together; see `PolicyScorer`."""
