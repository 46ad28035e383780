"""Which policies are compared on a user's table, how each is scored, and which one is the best.

The best is chosen on the validation rows, by the lower end of the 95% interval of its AUROC at the budget: a
policy that few rows tell about must be better by more, and one that hardly any row can be followed through is
not chosen if another can. AUROC, since accuracy says nothing where one class is rare, and since the predictor
and its calibration are the same for all. Scores are reported on test rows, which nothing was chosen by.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd

from ascertain import methods
from ascertain.errors import InputError
from ascertain.estimator.advisor import Advisor
from ascertain.estimator.classifier import AcquisitionClassifier
from ascertain.estimator.training import Plan, Shared, fit_advisor
from ascertain.evaluation.curves import curve_budgets
from ascertain.evaluation.incomplete import METRICS, evaluate_incomplete
from ascertain.evaluation.intervals import WeightedPredictions, bootstrap_intervals
from ascertain.evaluation.rollouts import MAX_ROWS, roll_out, sample_rows
from ascertain.practice.held_out import VALIDATION, HeldOut
from ascertain.predictors.predictions import predict_sets
from ascertain.problem import Table
from ascertain.reporting.names import policy_name

METRIC = "auroc"
RESAMPLES = 500
# How many rows to look at, and how often each is imagined to go on.
_CARE = {"standard": (MAX_ROWS, 8), "low": (MAX_ROWS // 2, 4)}
_SHARES_OF_ONE = ("auroc", "f1")  # which estimates with negative weights may leave

Estimator = Literal["dr", "ipw", "restricted"]
ESTIMATORS: tuple[Estimator, ...] = ("dr", "ipw", "restricted")  # the best first


@dataclass(frozen=True)
class Candidate:
    """A policy to fit: a method, its state variant and a treatment of the holes."""

    method: str
    state: str
    treatment: str

    @property
    def name(self) -> str:
        """What to call it."""
        if self.method == "static":
            return "fixed panel" if self.treatment == "restored" else f"fixed panel {self.treatment}"
        return f"{policy_name(self.method, self.state)} {self.treatment}"

    @property
    def fitting(self) -> str:
        """The stage in which it is fitted, in the words of `fit_advisor`."""
        return f"policy ({self.method}, {self.treatment})"

    @property
    def scoring(self) -> str:
        """The stage in which it is scored."""
        return f"scores ({self.method}, {self.treatment})"


# Two greedy policies that learn quickly, one of them in both treatments, and what people do without any.
DEFAULTS = (
    Candidate("gdfs", "s", "restored"),
    Candidate("gdfs", "s", "restricted"),
    Candidate("dime", "s", "restored"),
    Candidate("static", "s", "restored"),
)


@dataclass(frozen=True, eq=False)
class Contender:
    """A fitted candidate and its scores.

    `chosen_by` and `scores` have a row for each budget, estimator and metric, as
    `ascertain.evaluate_incomplete` gives them, on the validation and on the test rows.
    """

    candidate: Candidate
    advisor: Advisor
    seconds: float
    chosen_by: pd.DataFrame
    scores: pd.DataFrame

    def score(self, budget: float, estimator: str, metric: str = METRIC) -> "Score":
        """Give one score on the test rows."""
        return _score(self.scores, budget, estimator, metric)

    def choice(self, estimator: str) -> "Score":
        """Give the score on the validation rows, at the full budget."""
        return _score(self.chosen_by, float(self.chosen_by["budget"].max()), estimator, METRIC)


@dataclass(frozen=True)
class Score:
    """An estimate and its interval; NaN where there is none."""

    estimate: float
    low: float
    high: float
    effective_rows: float

    @property
    def exists(self) -> bool:
        """Whether there is an estimate."""
        return bool(np.isfinite(self.estimate))


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """The candidates, the best first, and by which estimate they were ordered (None: by none).

    Candidates that do not have this estimate come last.
    """

    contenders: tuple[Contender, ...]
    estimator: Estimator | None
    budgets: tuple[float, ...]

    @property
    def best(self) -> Contender:
        """The first."""
        return self.contenders[0]

    @property
    def reported(self) -> Estimator:
        """The best estimate that every candidate has on the test rows at the full budget."""
        budget = self.budgets[-1]
        for estimator in ESTIMATORS:
            if all(each.score(budget, estimator).exists for each in self.contenders):
                return estimator
        return "restricted"

    @property
    def told(self) -> Estimator:
        """The best estimate that the best candidate has on the test rows at the full budget."""
        scores = {each: self.best.score(self.budgets[-1], each) for each in ESTIMATORS}
        return next((each for each, score in scores.items() if score.exists), "restricted")


def stages(candidates: Sequence[Candidate], restorer: str) -> list[str]:
    """List the stages of `compare` in order, as it names them."""
    each = [stage for candidate in candidates for stage in (candidate.fitting, candidate.scoring)]
    return ["predictor", f"restorer ({restorer})", *each]


def check_candidates(candidates: Sequence[Candidate], restorer: str, effort: str) -> list[str]:
    """Raise where something is named that does not exist; give warnings about the others."""
    for each in candidates:
        Plan(each.method, each.state, each.treatment, restorer, "mlp", effort).check()
    keepers = [each.method for each in candidates if methods.get(each.method).keeps_rows]
    if restorer == "hotdeck":
        keepers.append("the hot deck")
    return [
        f"{keeper} keeps the training rows: the model will hold them, so do not give it to anybody who may "
        "not see the data"
        for keeper in dict.fromkeys(keepers)
    ]


def compare(
    data: HeldOut,
    candidates: Sequence[Candidate] = DEFAULTS,
    *,
    restorer: str = "pvae",
    effort: str = "standard",
    seed: int = 0,
    resamples: int = RESAMPLES,
    on_stage: Callable[[str], object] = lambda stage: None,
) -> Leaderboard:
    """Fit candidates, which share predictor and restorer, score them, and put the best first.

    Parameters
    ----------
    data
        What `hold_out` gives.
    candidates
        What to fit.
    restorer, effort
        As for `AcquisitionClassifier`.
    seed
        Of all that is random.
    resamples
        Bootstrap resamples, for the intervals.
    on_stage
        Called with the name of a stage when it begins, and with its name and time when it ends.
    """
    budgets = curve_budgets(data.prices, data.budget)
    shared, fitted = Shared(), []
    for candidate in candidates:
        plan = Plan(candidate.method, candidate.state, candidate.treatment, restorer, "mlp", effort)
        start = time.perf_counter()
        advisor = fit_advisor(
            seed,
            plan,
            data.encoding,
            np.array(data.table.classes),
            data.problem,
            data.rows,
            np.ones(len(data.table.classes)),
            on_stage,
            shared,
        )
        on_stage(candidate.scoring)
        began = time.perf_counter()
        chosen_by, scores = (
            score(advisor, table, budgets, estimated, effort=effort, resamples=resamples, seed=seed)
            for table, estimated in ((data.selection, budgets[-1:]), (data.test, budgets))
        )
        on_stage(f"{candidate.scoring}: {time.perf_counter() - began:.1f} s")
        fitted.append(Contender(candidate, advisor, began - start, chosen_by, scores))
    return _ranked(fitted, budgets)


def score(
    advisor: Advisor,
    table: Table,
    budgets: Sequence[float],
    estimated: Sequence[float],
    *,
    effort: str = "standard",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Score an advisor on rows that it was not fitted to, by every estimator.

    Parameters
    ----------
    advisor
        The advisor.
    table
        The rows, with holes or not.
    budgets
        What may be spent.
    estimated
        At which budgets to estimate what the policy would reach if everything could be bought. This takes
        by far the most time.
    effort
        With a low one fewer rows are looked at, and less often.
    resamples
        Bootstrap resamples, for the intervals.
    seed
        Of the resamples, and of which rows are looked at.

    Returns
    -------
    scores
        What `ascertain.evaluate_incomplete` gives; and, as the estimator `restricted`, the scores of rows as
        they are, in which the policy chooses among what a row has.
    """
    most_rows, draws = _CARE[effort]
    rows = sample_rows(table, most_rows, seed)
    plain = _restricted(advisor, rows, budgets, resamples, seed)
    try:
        estimates = evaluate_incomplete(
            advisor.policy,
            advisor.problem,
            rows,
            advisor.predictor,
            restorer=advisor.restorer,
            protocol=advisor.protocol,
            budgets=list(estimated),
            draws=draws,
            resamples=resamples,
            seed=seed,
        )
    except InputError:  # too few rows could be followed, at any of the budgets
        return plain
    return pd.concat([estimates, plain], ignore_index=True)


def as_classifier(
    data: HeldOut, contender: Contender, *, restorer: str, effort: str, seed: int
) -> AcquisitionClassifier:
    """Give a fitted candidate as the classifier that it is."""
    candidate = contender.candidate
    model = AcquisitionClassifier(
        method=candidate.method,
        state=candidate.state,
        treatment=candidate.treatment,
        restorer=restorer,
        budget=data.budget,
        validation_fraction=VALIDATION,
        effort=effort,
        random_state=seed,
    )
    return model.adopt(contender.advisor)


def _restricted(
    advisor: Advisor, table: Table, budgets: Sequence[float], resamples: int, seed: int
) -> pd.DataFrame:
    """Score rows as they are, in the columns of `evaluate_incomplete`."""
    n_rows = len(table.y)
    # Repeated up to a power of two, so that validation and test rows may share a program.
    rows = table.take(jnp.arange(1 << (n_rows - 1).bit_length()) % n_rows)
    reached = roll_out(
        jr.key(seed), advisor.policy, advisor.problem, rows, list(budgets), protocol=advisor.protocol
    )
    predictions = predict_sets(advisor.predictor, advisor.problem, rows, reached.acquired)
    predicted, taken = np.asarray(predictions)[:, :n_rows], np.asarray(reached.acquired)[:, :n_rows]
    spent = np.asarray(reached.spent, np.float64)[:, :n_rows]
    forced = np.asarray(reached.forced_stop)[:, :n_rows]
    frames = []
    for place, budget in enumerate(budgets):
        sample = WeightedPredictions(
            row=np.arange(n_rows),
            weight=np.ones(n_rows),
            probabilities=predicted[place].astype(np.float64),
            y=np.asarray(table.y),
            amounts={
                "mean_cost": spent[place],
                "mean_acquisitions": taken[place].sum(axis=1).astype(float),
                "forced_stop_rate": forced[place].astype(float),
            },
        )
        estimate = sample.scores()
        low, high = bootstrap_intervals(sample, n_rows, resamples=resamples, level=0.95, seed=seed)
        frames.append(
            pd.DataFrame(
                {
                    "budget": float(budget),
                    "estimator": "restricted",
                    "metric": metric,
                    "estimate": estimate[metric],
                    "low": low[metric],
                    "high": high[metric],
                    "effective_rows": float(n_rows),
                    "followed_rows": n_rows,
                    "n_rows": n_rows,
                    "reason": "",
                }
                for metric in METRICS
            )
        )
    return pd.concat(frames, ignore_index=True)


def _ranked(fitted: Sequence[Contender], budgets: tuple[float, ...]) -> Leaderboard:
    """Order by the best estimate that any has on the validation rows; the first of equals stays first."""
    for estimator in ESTIMATORS:
        if any(each.choice(estimator).exists for each in fitted):
            ordered = sorted(fitted, key=lambda each: _rank(each, estimator), reverse=True)
            return Leaderboard(tuple(ordered), estimator, budgets)
    return Leaderboard(tuple(fitted), None, budgets)


def _rank(contender: Contender, estimator: Estimator) -> tuple[bool, float]:
    """Put those without this estimate last, ordered by what else there is."""
    score, other = contender.choice(estimator), contender.choice("restricted")
    low = score.low if score.exists else other.low
    return score.exists, low if np.isfinite(low) else -np.inf


def _score(scores: pd.DataFrame, budget: float, estimator: str, metric: str) -> Score:
    wanted = (scores["estimator"] == estimator) & (scores["metric"] == metric)
    found = scores[wanted & np.isclose(scores["budget"], budget)]
    if found.empty:
        return Score(np.nan, np.nan, np.nan, np.nan)
    values = found.iloc[0][["estimate", "low", "high"]].to_numpy(np.float64)
    if metric in _SHARES_OF_ONE:
        values = np.clip(values, 0.0, 1.0)
    estimate, low, high = values.tolist()
    return Score(estimate, low, high, effective_rows=float(found["effective_rows"].iloc[0]))
