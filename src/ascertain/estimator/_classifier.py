"""`AcquisitionClassifier`: a scikit-learn classifier that also says what to measure next."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, _safe_indexing, check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from ascertain._core.checks import check_sample_weight
from ascertain._core.clusters import instance_numbers
from ascertain.decisions import check_decision_costs
from ascertain.errors import InputError, StoreError
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._answers import (
    Question,
    explanations,
    recommendations,
    recommended_sets,
    simulated_steps,
)
from ascertain.estimator._case_prices import at_prices, case_notes, check_case_costs
from ascertain.estimator._choosing import fit_automatically
from ascertain.estimator._files import load_advisor, save_advisor
from ascertain.estimator._habits import Habits, habit_sentences, known_signs, unusable_columns
from ascertain.estimator._targets import class_numbers
from ascertain.estimator._training import (
    COMPLETES_NEW_ROWS,
    FitChoices,
    Shared,
    TrainingRows,
    default_treatment,
    fit_advisor,
    usual_restorer,
)
from ascertain.estimator._weights import weigh_classes
from ascertain.evaluation._auto import AUTO
from ascertain.evaluation._curves import curve_budgets
from ascertain.evaluation._incomplete import evaluate_incomplete
from ascertain.evaluation._policy_scores import check_score_names, policy_scores
from ascertain.missingness._label_signs import LabelSign
from ascertain.problem import Table
from ascertain.tables._columns import as_array, is_table
from ascertain.tables._encoding import Encoding, as_columns, fit_encoding
from ascertain.tables._usable import idle_columns


class AcquisitionClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns, from a table with holes, what to measure next and what to predict from what is known.

    Rows are instances, columns are what can be measured, NaN (None, NA) means not measured. Columns may be
    numbers, booleans, dates, text or categories. Those that cannot help are left out with a warning: never
    measured, constant, or identifiers of rows.

    Parameters
    ----------
    method
        The acquisition policy: one of `ascertain.methods.names()`.
    state
        `"s"`, or `"sm"` for a policy that also sees what a training row lacks (`planner`, `jafa`, `ol`,
        `odin`, `odin_mb` and `cwcf`).
    treatment
        What becomes of the holes while the policy is trained: `"restored"` (filled with draws from a
        generative model), `"restricted"` (what a row lacks cannot be chosen in it) or `"direct"` (the policy
        learns from what a row has, and plans with everything; only for `"planner"`). None: `"direct"` for
        `"planner"`, `"restored"` for the others. `"auto"` tries all of them with several restorers, and
        chooses by what the policies are worth on the validation rows; `treatment_` and `auto_` say what.
    restorer
        The generative model: one of `ascertain.restoration.names()` that can draw without the label, such as
        `"mixture"`, `"pvae_noise"`, a Partial VAE, `"hotdeck"`, donors of the same class, or `"ensemble"` of
        several. It fills the holes of training rows (with `treatment="auto"` another one may be chosen for
        that), and completes new rows. Hot decks, the mixture and the ensemble keep training rows, so a model
        with one of them contains these. None: the mixture fills training rows (with `effort="low"` the
        Partial VAE), and the Partial VAE completes new ones, so that the model contains no training rows.
    completions
        How often every training row is restored, each time with another draw; `treatment="auto"` decides
        that itself.
    budget
        What may be spent on one instance; None: the sum of all costs.
    costs
        A price for each column: a mapping by name, an array in the order of the columns, or None for 1 each.
        Prices may be texts such as `"$1"`. Names of what is no column are ignored with a warning.
    groups
        Panels: a mapping from a name to the columns that are measured together under it.
    known
        Columns that are observed from the start at no cost, such as age and sex.
    default_cost
        What a column costs that `costs` does not list. Without it, `costs` must list all that are not known.
    setup
        Set-ups that tests share, such as a blood draw: the first test that needs one pays for it, later ones
        do not. A mapping from a name to its cost and columns (or panels):
        `{"blood draw": {"cost": 5, "columns": ["iron", "glucose"]}}`. A column has at most one.
    predictor
        `"mlp"`, or any scikit-learn classifier that accepts NaN.
    class_weight
        As in scikit-learn, for the predictor; policies always weigh classes equally, as in the paper.
    decision_costs
        What a wrong decision costs: a mapping `{true: {decided: cost}}`, a DataFrame with true classes as its
        index and decided ones as columns, or a matrix in the order of `classes_`. `predict` then decides for
        the class with the least expected cost, `evaluate` and `score` have what decisions cost, and the
        planner asks for what makes them cost less. Not together with `class_weight`, as probabilities must
        be those of the rows as they occur.
    stop_early
        With `decision_costs` in the unit of `costs`, and `method="planner"`: to stop as soon as no further
        measurement is expected to save as much as it costs, in place of spending the budget.
    validation_fraction
        The share of the rows that is held out, to choose between stages of training and to calibrate.
    effort
        `"standard"`, or `"low"` for a quick look.
    random_state
        A number, for the same result every time.
    verbose
        1 to print what is being fitted.

    Attributes
    ----------
    classes_
        The classes.
    n_features_in_, feature_names_in_
        The columns of the training table.
    advisor_
        What was fitted: encoding, problem, predictor, restorer and policy.
    treatment_
        The treatment that the policy learned with: `name`, `restorer` (empty unless it is `"restored"`) and
        `completions`.
    set_aside_
        The columns that are not used, and why: never measured, constant, or identifiers of rows.
    auto_
        With `treatment="auto"`, what was considered: a row for each `candidate`, with the `restorer_score`
        (an energy score; smaller is better), its `score_difference` to the nearest hot deck's and the
        standard error of that, whether it was `dropped`, the `value` of its policy (1 less half the Brier
        score or, with `decision_costs`, minus the mean cost of decisions), the `difference` to the best value
        with its `standard_error`, whether it was `chosen`, and the `rule` that decided. Else None.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> y = np.where(X[:, 2] > 0, "ill", "well")
    >>> X[rng.random(X.shape) < 0.3] = np.nan
    >>> model = AcquisitionClassifier(
    ...     method="static", restorer="hotdeck", budget=1, effort="low", random_state=0
    ... )
    >>> model.fit(X, y).recommend(np.full((1, 4), np.nan))["action"].tolist()
    ['x2']
    """

    def __init__(
        self,
        method: str = "gdfs",
        state: str = "s",
        treatment: str | None = None,
        restorer: str | None = None,
        completions: int = 1,
        budget: float | None = None,
        costs: Any = None,
        groups: Any = None,
        known: Any = None,
        default_cost: float | None = None,
        predictor: Any = "mlp",
        class_weight: Any = None,
        validation_fraction: float = 0.2,
        effort: str = "standard",
        random_state: Any = None,
        verbose: int = 0,
        decision_costs: Any = None,
        setup: Any = None,
        stop_early: bool = False,
    ):
        self.method = method
        self.state = state
        self.treatment = treatment
        self.restorer = restorer
        self.completions = completions
        self.budget = budget
        self.costs = costs
        self.groups = groups
        self.known = known
        self.default_cost = default_cost
        self.predictor = predictor
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.effort = effort
        self.random_state = random_state
        self.verbose = verbose
        self.decision_costs = decision_costs
        self.setup = setup
        self.stop_early = stop_early

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        rows_of: Any = None,
    ) -> "AcquisitionClassifier":
        """Learn from a table and its classes.

        Parameters
        ----------
        X
            A pandas or polars DataFrame, or a two-dimensional array.
        y
            The class of each row.
        sample_weight
            How much each row counts; by default all the same. Every part of the model learns from rows that
            are repeated in proportion to their weights. A weight of 0 leaves a row out.
        rows_of
            Which rows belong together, such as the patient of each: a label for each row. These are never
            split between training, validation and folds; leave them together where you hold out rows, too
            (as with scikit-learn's `GroupKFold`). Not the panels, which are the constructor's `groups`.
        """
        choices = self._choices()
        self._check(X, reset=True)
        instances = None if rows_of is None else instance_numbers("rows_of", rows_of, _num_samples(X))
        X, y, row_weights, instances = _counted(X, y, sample_weight, instances)  # noqa: N806
        columns, named = as_columns(X)
        classes, labels = class_numbers(y, len(columns))
        if len(classes) < 2:
            raise InputError(f"y has 1 class, {str(classes[0])!r}; there is nothing to tell apart")
        weights = weigh_classes(self.class_weight, classes, labels, row_weights)
        aside = idle_columns(columns, named=named)
        for name, reason in aside.items():
            warnings.warn(f"the column {name!r} is left out: {reason}", UserWarning, stacklevel=2)
        encoding, signs = self._encode(X, aside, labels, classes)
        x, available = encoding.transform(X)
        problem = encoding.problem(self.budget, [str(each) for each in classes])
        if self.decision_costs is not None:
            problem = problem.with_decision_costs(check_decision_costs(self.decision_costs, classes))
        rng = check_random_state(self.random_state)
        fraction = self.validation_fraction
        habits = Habits.found(problem, available, labels)
        even = habits.even_out(problem, available, labels, seed=0)
        rows = TrainingRows.split(x, even, labels, len(classes), fraction, rng, row_weights, instances)
        seed, say = int(rng.randint(2**31)), print if self.verbose else lambda stage: None
        for sentence in habit_sentences(signs):
            warnings.warn(sentence, UserWarning, stacklevel=2)
        shared = Shared(seed, problem, rows, weights, self.predictor, self.effort, say, habits=signs)
        fit = fit_automatically if choices.treatment == AUTO else fit_advisor
        target = y.name if isinstance(y, pd.Series) and isinstance(y.name, str) else None
        advisor = replace(fit(choices, encoding, classes, shared), target=target)
        self._adopt(advisor)
        if advisor.auto is not None:
            say(f"{advisor.auto.sentence}\n{advisor.auto.frame().to_string(index=False)}")
        return self

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Predict the probability of each class from what is known of each row."""
        return self._advisor().predict(*self._read(X))

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Predict the most probable class of each row, or the one with the least expected cost."""
        chosen = self._advisor().decide(self.predict_proba(X))  # raises if nothing was fitted
        predicted: np.ndarray = self.classes_[chosen]
        return predicted

    def recommend(
        self,
        X: Any,  # noqa: N803
        spent: Any = None,
        *,
        batch: int | None = None,
        costs: Any = None,
        forbid: Any = None,
        budget: Any = None,
    ) -> pd.DataFrame:
        """Recommend what to measure next for partly known rows.

        Parameters
        ----------
        X
            The rows, as in `fit`.
        spent
            What has been spent on each row, or one number for all; by default the cost of the actions
            whose columns are all known in the row.
        costs
            Prices of these cases where they are not those of training: a mapping by the name of a column,
            panel or set-up; the others stay. A policy that was trained for other prices says so in a warning
            and in the column `note`.
        forbid
            What is out of the question in these cases: names of columns, panels or set-ups. A panel with a
            forbidden column is forbidden.
        budget
            What may be spent on each row altogether, or one number for all; by default what the policy was
            trained for. What was spent already counts: without `spent`, that is the price of all that is
            on file. With `spent=0`, the budget is what may still be spent.
        batch
            Up to how many actions to order at once, when their results come back together. The set is chosen
            by what the prediction is expected to be worth once all of it is known (greedily, from several
            starts, within the budget, over completions of the row). What adds next to nothing is left out. It
            is empty where the policy stops, and where no set is expected to tell much.

        Returns
        -------
        advice
            A row for each row: `action` (None: to stop), its `cost` and `score`, `why` it is to stop
            ("policy", "budget" or "nothing left"), the `prediction` now, its `probability`, and the range in
            which this will lie once everything is measured (`low`, `high`: 90%). Policies that look ahead
            (`"planner"`) also say what they expect along the best continuation: `right_at_end`, the
            probability that the prediction is right once the budget is spent, calibrated on held-out rows
            (else NaN), and `then`, the action that most likely follows (None: none). `if_result` says which
            results would change the prediction, and to what; `explain` has it as numbers. With a `batch`
            there are instead `actions`, a tuple with the most useful first, their `cost`, and `right_after`,
            the expected probability that the prediction is right once they are known; where none of them
            tells much, `why` is "no set helps".
        """
        trained = self._advisor()
        prices_now = check_case_costs(trained.encoding, costs)
        asked = Question.about(at_prices(trained, prices_now), *self._read(X), spent, forbid, budget)
        found = recommended_sets(asked, batch) if batch is not None else recommendations(asked)
        notes = case_notes(trained, prices_now, asked.largest_budget)
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        if notes:
            found["note"] = " ".join(notes)
        return found.set_axis(_index(X, len(found)), axis=0)

    def explain(
        self,
        X: Any,  # noqa: N803
        spent: Any = None,
        *,
        costs: Any = None,
        forbid: Any = None,
        budget: Any = None,
    ) -> pd.DataFrame:
        """Say which results of the recommended actions would change the predictions, and to what.

        Parameters
        ----------
        X, spent, costs, forbid, budget
            As for `recommend`.

        Returns
        -------
        outcomes
            For each row that is not to stop, the outcomes of its recommended action: `row` (its index),
            `action`, `column`, the `result` in words, the bounds of an interval of numbers (`above`, `up_to`;
            NaN: none), the `share` of results that are such, the `prediction` with them, the action that most
            likely follows (`then`; None: none, or the policy does not look ahead), and the `probability of`
            each class. Of a panel they are those of the column that tells most about the prediction, or where
            no column does (None), one for each class that may be predicted.
        """
        trained = self._advisor()
        prices_now = check_case_costs(trained.encoding, costs)
        asked = Question.about(at_prices(trained, prices_now), *self._read(X), spent, forbid, budget)
        return explanations(asked, _index(X, len(asked.x)))

    def acquire(self, X: Any, budget: float | None = None) -> pd.DataFrame:  # noqa: N803
        """Simulate acquisition on rows whose values are known.

        Parameters
        ----------
        X
            The rows. What a row lacks cannot be acquired for it.
        budget
            What may be spent on each; by default the budget that the policy was trained for.

        Returns
        -------
        steps
            For each row and step, from 0 (nothing acquired): `row` (its index), `step`, `action`, its
            `cost`, what is `spent`, the `prediction` and its `probability`.
        """
        x, available = self._read(X)
        return simulated_steps(self._advisor(), x, available, self._budgets([budget])[0], _index(X, len(x)))

    def evaluate(
        self,
        X: Any,  # noqa: N803
        y: Any,
        budgets: Sequence[float] | None = None,
        *,
        sample_weight: Any = None,
        resamples: int = 0,
        random_state: int = 0,
        rows_of: Any = None,
    ) -> pd.DataFrame:
        """Estimate how the policy scores at several budgets, on rows that it was not trained on.

        The policy is followed in every row. Rows may have holes: then this estimates the scores that the
        policy would reach if everything could be bought (see `ascertain.evaluate_incomplete`).

        Parameters
        ----------
        X, y
            The rows and their classes.
        budgets
            The budgets; by default five, from nothing to what the policy was trained for.
        sample_weight
            How much each row counts; by default all the same.
        resamples
            0: intervals from influence functions, which is quick; else bootstrap resamples for them.
        random_state
            The seed.
        rows_of
            Which rows belong together, as in `fit`: intervals then count them as one.

        Returns
        -------
        scores
            One row for each budget, estimator and metric, with `estimate`, `low` and `high`; the number of
            rows that each rests on, also of the rarest class (`effective_rows`, `rarest_effective_rows`);
            and a `warning` where a class has fewer than 30 of them.
        """
        advisor = self._advisor()
        return evaluate_incomplete(
            advisor.policy,
            advisor.problem,
            self._labelled(X, y, rows_of),
            advisor.predictor,
            restorer=advisor.restorer,
            protocol=advisor.protocol,
            budgets=self._budgets(budgets),
            resamples=resamples,
            seed=random_state,
            sample_weight=sample_weight,
        )

    def score(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        *,
        metric: str | None = None,
        estimator: str = "auto",
        budget: float | None = None,
    ) -> float:
        """Score the predictions after the policy's acquisitions, on rows that it was not trained on.

        The policy is followed from the start of every row (only what is `known` is there), whatever else is
        on file. So models with other budgets, prices or methods can be compared, as a grid search does. For
        other metrics in a search, use `ascertain.scorers`.

        Parameters
        ----------
        X, y
            The rows and their classes. Rows may have holes.
        sample_weight
            How much each row counts; by default all the same.
        metric
            One of those of `evaluate`. None: the accuracy; with `decision_costs` minus the mean cost of
            decisions, so that larger is better.
        estimator
            `"dr"`, `"ipw"` (see `evaluate`), `"restricted"` (choose among what a row has), or `"auto"`:
            `"dr"` where something is missing. Where fewer than 30 effective rows can be followed to the end,
            `"auto"` warns and is `"restricted"`, and the first two raise an error.
        budget
            What may be spent on each row; by default what the policy was trained for.
        """
        advisor = self._advisor()
        costs = advisor.problem.decision_costs
        check_score_names(metric or "accuracy", estimator, decisions=costs is not None)
        found = policy_scores(
            advisor.policy,
            advisor.problem,
            self._labelled(X, y),
            advisor.predictor,
            restorer=advisor.restorer,
            protocol=advisor.protocol,
            budget=self._budgets([budget])[0],
            estimator=estimator,
            sample_weight=sample_weight,
        )
        if metric is None and costs is not None:
            return -found["decision_cost"]
        return found[metric or "accuracy"]

    def save(self, path: str | Path) -> None:
        """Write the fitted classifier to a file, as numbers and JSON; see `ascertain.save_model`.

        Parameters
        ----------
        path
            A file that ends in `.safetensors`, or a folder in which `model.safetensors` is written.
        """
        advisor = self._advisor()
        save_advisor(path, advisor, self._plain_parameters(advisor.encoding))

    @classmethod
    def load(cls, path: str | Path) -> "AcquisitionClassifier":
        """Read a classifier from what `save` has written; nothing in it is executed."""
        advisor, parameters = load_advisor(path)
        for name in sorted(set(parameters) - set(cls._get_param_names()))[:1]:
            raise StoreError(f"{path} has the parameter {name!r}, which a classifier does not have")
        return cls(**parameters).adopt(advisor)

    def adopt(self, advisor: Advisor) -> "AcquisitionClassifier":
        """Become fitted, by an advisor that was fitted or loaded elsewhere."""
        columns = advisor.encoding.table_columns
        self._adopt(advisor)
        self.n_features_in_ = len(columns)
        if advisor.encoding.named:
            self.feature_names_in_ = np.array(columns, object)
        return self

    def _adopt(self, advisor: Advisor) -> None:
        self.classes_, self.advisor_ = advisor.classes, advisor
        self.treatment_ = self._choices().treated if advisor.auto is None else advisor.auto.treated
        self.set_aside_ = {each.name: each.reason for each in advisor.encoding.aside}
        self.auto_: Any = None if advisor.auto is None else advisor.auto.frame()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _encode(
        self,
        X: Any,  # noqa: N803
        aside: dict[str, str],
        labels: np.ndarray,
        classes: np.ndarray,
    ) -> tuple[Encoding, tuple[LabelSign, ...]]:
        """Learn the encoding, without the columns that hardly any row of a class has; and such habits."""

        def encoded(left_out: dict[str, str]) -> Encoding:
            return fit_encoding(
                X,
                costs=self.costs,
                groups=self.groups,
                known=self.known,
                default_cost=self.default_cost,
                setup=self.setup,
                aside=left_out,
            )

        encoding = encoded(aside)
        names = [str(each) for each in classes]
        signs = Habits.found(encoding.problem(None, names), encoding.transform(X)[1], labels).signs
        signs += known_signs(encoding, X, labels, names)
        unusable = unusable_columns(encoding, signs)
        return (encoded(aside | unusable) if unusable else encoding), signs

    def _plain_parameters(self, encoding: Encoding) -> dict[str, Any]:
        """The parameters as plain data; prices, panels and known columns as they were understood."""
        simple = ("method", "state", "treatment", "restorer", "predictor", "effort", "verbose")
        state, weight = self.random_state, self.class_weight
        costs = self._advisor().problem.decision_costs
        return {
            **{name: getattr(self, name) for name in simple},
            "completions": int(self.completions),
            "budget": None if self.budget is None else float(self.budget),
            "costs": {action.name: action.price for action in encoding.actions},
            "groups": {a.name: list(a.columns) for a in encoding.actions if a.columns != (a.name,)} or None,
            "known": list(encoding.known) or None,
            "default_cost": None if self.default_cost is None else float(self.default_cost),
            **({} if costs is None else {"decision_costs": np.asarray(costs, np.float64).tolist()}),
            **({"stop_early": True} if self.stop_early else {}),
            **_setup_parameter(encoding),
            "class_weight": weight if isinstance(weight, str) else None,
            "validation_fraction": float(self.validation_fraction),
            "random_state": int(state) if isinstance(state, int | np.integer) else None,
        }

    def _choices(self) -> FitChoices:
        choices = FitChoices(
            method=self.method,
            state=self.state,
            treatment=self.treatment or default_treatment(self.method),
            restorer=self.restorer or usual_restorer(self.effort),
            predictor=self.predictor,
            effort=self.effort,
            completions=self.completions,
            stop_early=bool(self.stop_early),
            completing=self.restorer or COMPLETES_NEW_ROWS,
        )
        choices.check()
        if self.stop_early and self.decision_costs is None:
            raise InputError(
                "stop_early weighs prices against what wrong decisions cost; say what these cost, in the "
                "same unit, with decision_costs"
            )
        if self.decision_costs is not None and self.class_weight is not None:
            raise InputError(
                "decision_costs and class_weight exclude each other: costs are weighed with probabilities as "
                "they are, which class_weight changes; leave out class_weight"
            )
        fraction = self.validation_fraction
        if not (isinstance(fraction, int | float) and 0 < fraction < 1):
            raise InputError(f"validation_fraction must be between 0 and 1, got {fraction!r}")
        return choices

    def _advisor(self) -> Advisor:
        check_is_fitted(self)
        advisor: Advisor = self.advisor_
        return advisor

    def _read(self, X: Any) -> tuple[np.ndarray, np.ndarray]:  # noqa: N803
        """Encode rows; a category that training did not have counts as not measured."""
        encoding = self._advisor().encoding
        self._check(X, reset=False)
        return encoding.transform(X, unseen="missing")

    def _labelled(self, X: Any, y: Any, rows_of: Any = None) -> Table:  # noqa: N803
        """Encode rows with their classes."""
        x, available = self._read(X)
        known, labels = class_numbers(y, len(x))
        unknown = [each for each in known if each not in self.classes_]
        if unknown:
            raise InputError(f"y holds {str(unknown[0])!r}, a class that the training table did not have")
        codes = np.searchsorted(self.classes_, known)[labels]
        ids = None if rows_of is None else instance_numbers("rows_of", rows_of, len(x))
        return Table(x, codes, available, n_classes=len(self.classes_), ids=ids)

    def _check(self, X: Any, *, reset: bool) -> None:  # noqa: N803
        """Raise unless `X` is a table with the columns of `fit`; with `reset`, remember its columns."""
        if not is_table(X):
            as_array(X)
        elif not reset and self._advisor().encoding.named:
            return  # the encoding finds columns by name, in any order and among others
        validate_data(self, X, reset=reset, skip_check_array=True)

    def _budgets(self, budgets: Sequence[float | None] | None) -> list[float]:
        problem = self._advisor().problem
        if budgets is not None:
            return [float(problem.budget) if each is None else float(each) for each in budgets]
        return list(curve_budgets(problem.price_list, float(problem.budget)))


def _counted(
    X: Any,  # noqa: N803
    y: Any,
    sample_weight: Any,
    instances: np.ndarray | None,
) -> tuple[Any, Any, np.ndarray | None, np.ndarray | None]:
    """The rows that count, with their classes, weights and instances; no weights where all are the same."""
    weights = check_sample_weight(sample_weight, _num_samples(X))
    if weights is None or weights.all():
        return X, y, weights, instances
    if _num_samples(y) != len(weights):
        raise InputError(f"X has {len(weights)} rows, but y has {_num_samples(y)}")
    kept = np.flatnonzero(weights)
    left = weights[kept]
    among = None if instances is None else np.unique(instances[kept], return_inverse=True)[1]
    counted = None if np.ptp(left) == 0 else left
    return _safe_indexing(X, kept), _safe_indexing(y, kept), counted, among


def _setup_parameter(encoding: Encoding) -> dict[str, Any]:
    """The set-ups as plain data; nothing where there are none, as before there were any."""
    setups = {each.name: {"cost": each.cost, "columns": list(each.columns)} for each in encoding.setups}
    return {"setup": setups} if setups else {}


def _index(X: Any, n_rows: int) -> "pd.Index[Any]":  # noqa: N803
    """The index of a DataFrame, or row numbers."""
    return X.index if isinstance(X, pd.DataFrame) else pd.RangeIndex(n_rows)
