"""Scores that a policy would have if every action could be bought, estimated from rows with missing values.

`evaluate` scores a policy on rows as they are, in which it cannot acquire what they lack. Here the policy
chooses as if everything were available, and a row supports its rollout up to the first choice that it lacks.
Two estimates are made of every score:

- `ipw`, inverse propensity weighting, uses the rows with complete rollouts and weights them by the inverse
  probability of that, a product over their choices.
- `dr`, a doubly robust form, also uses the other rows: rollouts continue from every step in rows that an
  outcome model completes, and the weights correct the model's errors.

All rows are followed. Both assume that whether a row has what is chosen depends only on what is known of it:
features that every row has, what was acquired before, and the class (who is ill is tested more). Where it
also depends on values that nobody measured (MNAR), the estimates are biased, and intervals do not show it.
Where no row of a class has what the policy asks for, nothing in the data says what would follow, and there is
no estimate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import Float, Int, PRNGKeyArray
from numpy.typing import ArrayLike

from ascertain._core.checks import check_count, check_sample_weight, is_real
from ascertain._core.clusters import clusters_of
from ascertain.errors import InputError
from ascertain.evaluation._curves import check_budgets
from ascertain.evaluation._decision_scores import decision_metrics, with_decisions
from ascertain.evaluation._futures import MOST_FUTURES, Futures, doubly_robust_predictions
from ascertain.evaluation._intervals import (
    WeightedPredictions,
    bootstrap_intervals,
    intervals,
    row_influences,
    within_range,
)
from ascertain.evaluation._partial_rollouts import (
    ImportanceWeights,
    PartialRollouts,
    SupportGap,
    Target,
    complete_predictions,
    importance_weights,
    roll_out_partially,
)
from ascertain.evaluation._propensity import assign_folds
from ascertain.evaluation._rollouts import most_steps, sample_places, sample_rows
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.restoration import Restorer

CLIP = 0.02  # the least propensity
LEAST_EFFECTIVE_ROWS = 30  # of all rows, for an estimate; of each class, for one without a warning
METRICS = (
    *("accuracy", "f1", "auroc", "auprc", "log_loss", "brier", "ece"),
    *("mean_cost", "mean_acquisitions", "forced_stop_rate"),
)


class TooFewRowsError(InputError):
    """Too few rows can be followed to the end for an estimate at any budget."""


def evaluate_incomplete(
    policy: Policy,
    problem: Problem,
    table: Table,
    predictor: Predictor,
    *,
    restorer: Restorer | None = None,
    protocol: Protocol = PAPER,
    budgets: Sequence[float] | None = None,
    draws: int = 8,
    futures: int = MOST_FUTURES,
    resamples: int = 0,
    level: float = 0.95,
    clip: float = CLIP,
    key: PRNGKeyArray | None = None,
    max_rows: int | None = None,
    seed: int = 0,
    thresholds: Sequence[float] = (),
    sample_weight: ArrayLike | None = None,
) -> pd.DataFrame:
    """Estimate from rows with missing values how a policy would score if every action could be bought.

    Parameters
    ----------
    policy, problem, predictor, protocol, budgets, max_rows
        As for `evaluate`; the policy was fitted to other rows.
    table
        Test rows with missing values. Those with the same number in `ids` are kept together in folds and
        resamples, and count as one in intervals. A feature that no action reveals counts as 0 where a row
        lacks it.
    restorer
        The outcome model: draws missing values, given the class; fitted to other rows. Without one there is
        no `dr`.
    draws
        How many draws complete a row from each step of its rollout, at most.
    futures
        The most draws at one budget. Where there are more rows and steps than that, draws are made in a
        sample of the rows, which has as many of each class as there are or fit in; all rows are followed.
    resamples
        0: intervals come from influence functions, which takes little time. Else they are percentile
        intervals of so many bootstrap resamples. Either way it is accounted for that propensities were
        estimated (see `ascertain.evaluation._intervals`).
    level
        How often an interval should hold the truth.
    clip
        The least propensity; a smaller one counts as this one. This bounds the weights, at the price of bias
        where smaller ones are true.
    key
        The random key, for stochastic policies and for the draws; by default made from `seed`.
    seed
        Of all else that is random: the rows if there are too many, their folds, and the resamples.
    thresholds
        Probabilities of the second of two classes at which to estimate net benefit
        (`ascertain.decisions.net_benefit`), as the metrics `net_benefit_0.1` and so on.
    sample_weight
        How much each row counts; by default all the same. Rows of weight 0 are left out. Intervals hold for
        rows that were drawn one by one, each with its weight; they are wider than those of repeated rows.

    Returns
    -------
    estimates
        One row per budget, estimator and metric (those of `evaluate`, and net benefit): `budget`,
        `estimator`, `metric`, `estimate`, and its interval from `low` to `high`; `effective_rows`, the
        effective sample size of the `followed_rows` with complete rollouts, of `n_rows`; the class that has
        least of it, `rarest_class`, and its `rarest_effective_rows` of `rarest_rows`; `drawn_rows`, in how
        many rows futures were drawn; `warning`, empty unless a class has fewer than 30 effective rows; and
        `reason`, empty unless there is no estimate (NaN), because there are fewer than 30 effective rows, or
        because no row of a class has what the policy asks for. If there is none at any budget, an
        `InputError` is raised.

    Examples
    --------
    A policy that buys the only column, in rows of which a third lack it:

    >>> import jax.numpy as jnp
    >>> import jax.random as jr
    >>> from ascertain import Problem, Table, methods
    >>> problem, nan = Problem([[True]], [1], budget=1, n_classes=2), float("nan")
    >>> table = Table([[-1.0], [1.0], [nan]] * 100, y=[0, 1, 1] * 50 + [0, 1, 0] * 50)
    >>> policy = methods.fit("sequential", jr.key(0), problem, table, table)
    >>> def predictor(x, observed):
    ...     chance = jnp.where(observed[:, 0], x[:, 0] > 0, 0.5)
    ...     return jnp.stack([1 - chance, chance], axis=1)
    >>> estimates = evaluate_incomplete(policy, problem, table, predictor)
    >>> accuracy = estimates[estimates["metric"] == "accuracy"].round(3)
    >>> accuracy[["estimator", "estimate", "followed_rows", "n_rows"]].values.tolist()
    [['ipw', 1.0, 200, 300]]

    `AcquisitionClassifier.evaluate` calls it; `examples/rare_outcome.py` goes through what it returns.
    """
    estimation = Estimation.of(
        policy,
        problem,
        table,
        predictor,
        restorer=restorer,
        protocol=protocol,
        budgets=budgets,
        draws=draws,
        futures=futures,
        clip=clip,
        key=key,
        max_rows=max_rows,
        seed=seed,
        thresholds=thresholds,
        sample_weight=sample_weight,
    )
    check_count("resamples", resamples, least=0)
    level = _check_share("level", level)
    found = [estimation.at(budget).frame(level=level, resamples=resamples) for budget in estimation.budgets]
    return all_estimates(found)


def all_estimates(found: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Put the estimates of several budgets together; raises where there is none at any of them."""
    together = pd.concat(found, ignore_index=True)
    if (together["reason"] != "").all():
        reasons = "; ".join(together["reason"].unique())
        raise TooFewRowsError(
            f"{reasons}. An estimate needs {LEAST_EFFECTIVE_ROWS} effective rows, and some of every class "
            "with what the policy asks for: give more test rows, or a smaller budget, with which the policy "
            "can be followed further"
        )
    return together


@dataclass(frozen=True, eq=False)
class Estimation:
    """How the scores of a policy are estimated at several budgets: what `evaluate_incomplete` is given."""

    policy: Policy
    problem: Problem
    rows: Table
    predictor: Predictor
    restorer: Restorer | None
    protocol: Protocol
    budgets: tuple[float, ...]
    draws: int
    futures: int
    clip: float
    key: PRNGKeyArray
    seed: int
    thresholds: Sequence[float]
    row_weights: Float[np.ndarray, " rows"] | None

    @classmethod
    def of(
        cls,
        policy: Policy,
        problem: Problem,
        table: Table,
        predictor: Predictor,
        *,
        restorer: Restorer | None = None,
        protocol: Protocol = PAPER,
        budgets: Sequence[float] | None = None,
        draws: int = 8,
        futures: int = MOST_FUTURES,
        clip: float = CLIP,
        key: PRNGKeyArray | None = None,
        max_rows: int | None = None,
        seed: int = 0,
        thresholds: Sequence[float] = (),
        sample_weight: ArrayLike | None = None,
    ) -> "Estimation":
        """Check what is given; the parameters are those of `evaluate_incomplete`."""
        problem.check(table)
        amounts = tuple(check_budgets(problem, budgets).tolist())
        check_count("draws", draws, least=1)
        check_count("futures", futures, least=1)
        decision_metrics(problem, thresholds)  # raises where net benefit has no meaning
        rows, row_weights = _counted(table, sample_weight, max_rows, seed)
        return cls(
            policy,
            problem,
            rows,
            predictor,
            restorer,
            protocol,
            budgets=amounts,
            draws=draws,
            futures=futures,
            clip=_check_share("clip", clip),
            key=jr.key(seed) if key is None else key,
            seed=seed,
            thresholds=thresholds,
            row_weights=row_weights,
        )

    @cached_property
    def clusters(self) -> Int[np.ndarray, " rows"] | None:
        """Which rows belong together."""
        return clusters_of(self.rows.ids)

    @cached_property
    def fold(self) -> Int[np.ndarray, " rows"]:
        """The fold of each row, in which its propensities are predicted."""
        return assign_folds(len(self.rows.y), self.seed, self.clusters)

    def at(self, budget: float) -> "Estimated":
        """Follow the policy at a budget, and weight what it predicts."""
        y, limited = np.asarray(self.rows.y), self.problem.without_names().at(budget)
        n_steps = most_steps(self.problem, list(self.budgets))
        target = Target(self.policy.at(limited.budget), limited, self.predictor, self.protocol, n_steps)
        rollouts = roll_out_partially(self.key, target, self.rows)
        weights = importance_weights(rollouts, limited, self.rows, self.fold, self.clip)
        weights = weights.scaled(self.row_weights)
        facts = _support(self.problem, budget, rollouts, weights, y)
        samples: dict[str, WeightedPredictions] = {}
        drawn = 0
        if not facts["reason"]:
            samples["ipw"] = complete = complete_predictions(target, self.rows, rollouts, weights)
            if self.restorer is not None:
                rng = np.random.default_rng(self.seed)
                chosen = Futures.chosen(weights, y, draws=self.draws, most=self.futures, rng=rng)
                samples["dr"] = doubly_robust_predictions(
                    jr.fold_in(self.key, 1), target, self.rows, rollouts, chosen, self.restorer, complete
                )
                drawn = len(np.unique(chosen.row))
        with_all = {
            name: with_decisions(each, self.problem, self.thresholds) for name, each in samples.items()
        }
        return Estimated(self, budget, with_all, weights, facts, drawn)


class Estimated(NamedTuple):
    """What a policy predicts at a budget, weighted by each estimator, and what that rests on."""

    by: Estimation
    budget: float
    samples: dict[str, WeightedPredictions]  # none where there is no estimate
    weights: ImportanceWeights
    facts: dict[str, Any]
    drawn_rows: int

    def frame(self, *, level: float = 0.95, resamples: int = 0) -> pd.DataFrame:
        """Estimates with their intervals, as in `evaluate_incomplete`."""
        metrics = (*METRICS, *decision_metrics(self.by.problem, self.by.thresholds))
        records = []
        for estimator in ("ipw",) if self.by.restorer is None else ("ipw", "dr"):
            numbers = _numbers(
                self.samples.get(estimator),
                metrics,
                self.weights,
                self.by.clusters,
                level,
                resamples,
                self.by.seed,
            )
            more = self.facts | {"drawn_rows": self.drawn_rows if estimator == "dr" else 0}
            named = {"budget": self.budget, "estimator": estimator}
            records += [named | {"metric": metric} | numbers[metric] | more for metric in metrics]
        return pd.DataFrame(records)

    def influences(self, estimator: str) -> dict[str, Float[np.ndarray, " instances"]]:
        """How much every instance moves each of an estimator's scores; nothing where there is no estimate."""
        sample, weights = self.samples.get(estimator), self.weights
        if sample is None:
            return {}
        n_rows = len(weights.cumulative)
        return row_influences(sample, sample.scores(), n_rows, weights.residuals, clusters=self.by.clusters)


def _counted(
    table: Table, sample_weight: ArrayLike | None, max_rows: int | None, seed: int
) -> tuple[Table, Float[np.ndarray, " rows"] | None]:
    """The rows that count, or a sample of them, with their weights; None: all weigh the same."""
    weights = check_sample_weight(sample_weight, len(table.y))
    if weights is None:
        return sample_rows(table, max_rows, seed), None
    kept = np.flatnonzero(weights)
    places = sample_places(len(kept), max_rows, seed)
    kept = kept if places is None else kept[places]
    return table.take(kept), weights[kept]


def _numbers(
    sample: WeightedPredictions | None,
    metrics: Sequence[str],
    weights: ImportanceWeights,
    clusters: Int[np.ndarray, " rows"] | None,
    level: float,
    resamples: int,
    seed: int,
) -> dict[str, dict[str, float]]:
    """Every metric's estimate and interval, within what it can be; NaN without a sample."""
    if sample is None:
        return {metric: dict.fromkeys(("estimate", "low", "high"), np.nan) for metric in metrics}
    estimate, n_rows, residuals = sample.scores(), len(weights.cumulative), weights.residuals
    if resamples:
        ends = bootstrap_intervals(
            sample, n_rows, residuals, resamples=resamples, level=level, seed=seed, clusters=clusters
        )
    else:
        ends = intervals(sample, estimate, n_rows, residuals, level=level, clusters=clusters)
    named = dict(zip(("estimate", "low", "high"), (estimate, *ends), strict=True))
    return {
        metric: {name: within_range(metric, each[metric]) for name, each in named.items()}
        for metric in metrics
    }


def rarest_facts(
    problem: Problem, y: Int[np.ndarray, " rows"], effective: Float[np.ndarray, " classes"]
) -> dict[str, Any]:
    """Which class has the fewest effective rows, how many, and what to say beside the number if they are few.

    `effective` is of the classes that occur, in their order.
    """
    labels, sizes = np.unique(y, return_counts=True)
    place = int(effective.argmin())
    name = str(labels[place]) if problem.class_names is None else problem.class_names[labels[place]]
    rows = float(effective[place])
    few = f"rests on {rows:.0f} effective rows of class {name!r}, fewer than {LEAST_EFFECTIVE_ROWS}"
    return {
        "rarest_class": name,
        "rarest_effective_rows": rows,
        "rarest_rows": int(sizes[place]),
        "warning": few if rows < LEAST_EFFECTIVE_ROWS else "",
    }


def _check_share(what: str, value: float) -> float:
    if not (is_real(value) and 0 < value < 1):
        raise InputError(f"{what} must be above 0 and below 1, got {value!r}")
    return float(value)


def _support(
    problem: Problem,
    budget: float,
    rollouts: PartialRollouts,
    weights: ImportanceWeights,
    y: Int[np.ndarray, " rows"],
) -> dict[str, Any]:
    """Compute effective sample sizes at a budget, with the reason if they do not allow for an estimate."""
    n_rows, n_complete = len(rollouts.complete), int(rollouts.complete.sum())
    effective = weights.effective_rows
    reason = ""
    if effective < LEAST_EFFECTIVE_ROWS:
        reason = (
            f"at budget {budget:g}, {n_complete} of {n_rows} rows could be followed to the end, an effective "
            f"sample size of {effective:.1f} rows"
        )
    elif weights.gaps:
        reason = f"at budget {budget:g}, {_gap_text(problem, weights.gaps[0])}"
    return {
        "effective_rows": effective,
        "followed_rows": n_complete,
        "n_rows": n_rows,
        **rarest_facts(problem, y, weights.effective_rows_of(y)),
        "reason": reason,
    }


def _gap_text(problem: Problem, gap: SupportGap) -> str:
    action, label = (
        repr(names[number]) if names else str(number)
        for names, number in ((problem.action_names, gap.action), (problem.class_names, gap.label))
    )
    return (
        f"hardly any row of class {label} has {action}, for which the policy asks in {gap.rows} of them: "
        "what it would do there cannot be seen in these rows"
    )
