"""How well a policy would do if everything could be bought, estimated from test rows with holes.

`evaluate` scores a policy on rows as they are: what a row lacks cannot be acquired in it. Here the policy
chooses as if everything were available, and a row is followed until the policy stops, the budget is spent or
it chooses what the row lacks. Two estimates are made of every score:

- `ipw` weights the rows that were followed to the end by the inverse probability of that, a product over
  their choices.
- `dr`, a doubly robust form, also uses the others, as far as they go: from every point on its way a row is
  filled by draws that do not see its label, and the policy goes on in these. The weights correct for what
  the draws get wrong.

Both need that whether a row has what is chosen depends on nothing but what is known of it: features that
every row has, what was acquired before, and its class (who is ill is tested more). Where it also depends on
values that nobody measured (MNAR), they are biased, and their intervals do not say so.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, PRNGKeyArray

from ascertain._core.checks import check_count, is_real
from ascertain.errors import InputError
from ascertain.evaluation.curves import MAX_ROWS, check_budgets, most_steps, sample_rows
from ascertain.evaluation.partial_rollouts import (
    Paths,
    Situation,
    Weights,
    completed_sample,
    doubly_robust_sample,
    follow,
    step_weights,
)
from ascertain.evaluation.propensity import assign_folds
from ascertain.evaluation.weighted_metrics import Sample, intervals, measure_sample
from ascertain.policy import Policy
from ascertain.predictors.masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol
from ascertain.restoration import Restorer, label_free

LEAST_EFFECTIVE_ROWS = 30
METRICS = (
    *("accuracy", "f1", "auroc", "auprc", "log_loss", "brier", "ece"),
    *("mean_cost", "mean_acquisitions", "forced_stop_rate"),
)


class _Rows(NamedTuple):
    """The test rows, and what does not depend on the budget."""

    table: Table
    always: Bool[np.ndarray, " features"]  # available in every row
    fold: Int[np.ndarray, " rows"]
    clip: float


class _Bootstrap(NamedTuple):
    resamples: int
    level: float
    seed: int


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
    resamples: int = 1000,
    level: float = 0.95,
    clip: float = 0.02,
    key: PRNGKeyArray | None = None,
    max_rows: int | None = MAX_ROWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate from rows with holes how a fixed policy would score if every action could be bought.

    Parameters
    ----------
    policy, problem, predictor, protocol, budgets, max_rows
        As for `evaluate`; the policy was fitted to other rows.
    table
        Test rows with holes. A feature that no action reveals is taken for 0 where a row lacks it.
    restorer
        Draws the values of missing cells; fitted to other rows. Without one there is no `dr`.
    draws
        How often each row is filled from each point on its way.
    resamples
        How often the rows are drawn anew for the intervals. The weights stay as they are; what they would
        change by is accounted for by regression.
    level
        How much of the resamples' scores an interval holds.
    clip
        The least probability of having what is chosen that is believed; a smaller one counts as this one.
        This bounds the weights, at the price of bias where smaller ones are true.
    key
        The random key, for policies that draw lots and for the draws; by default made from `seed`.
    seed
        Of all else that is random: which rows to look at, their folds, and the resamples.

    Returns
    -------
    estimates
        One row per budget, estimator and metric (those of `evaluate`): `budget`, `estimator`, `metric`,
        `estimate`, and the bootstrap percentile interval from `low` to `high`; `effective_rows`, how many
        rows of equal weight would tell as much as the `followed_rows` that were followed to the end, of
        `n_rows`; and `reason`, empty unless there are fewer than 30 effective rows and so no estimate (NaN).
        If there are too few at every budget, an `InputError` is raised.
    """
    estimators = ["ipw"] if restorer is None else ["ipw", "dr"]
    problem.check(table)
    amounts = check_budgets(problem, budgets).tolist()
    check_count("draws", draws, least=1)
    bootstrap = _Bootstrap(check_count("resamples", resamples, least=2), _share("level", level), seed)
    free = None if restorer is None else label_free(restorer)
    rows = _rows(sample_rows(table, max_rows, seed), _share("clip", clip), seed)
    key = jr.key(seed) if key is None else key
    frames = []
    for budget in amounts:
        situation = _situation(policy, problem, predictor, protocol, budget, most_steps(problem, amounts))
        facts, weights, samples = _at_budget(key, budget, situation, rows, free, draws)
        frames += [_frame(name, samples.get(name), weights, facts, bootstrap) for name in estimators]
    found = pd.concat(frames, ignore_index=True)
    if (found["reason"] != "").all():
        raise InputError("; ".join(found["reason"].unique()) + _WHAT_TO_DO)
    return found


_WHAT_TO_DO = (
    f". An estimate needs {LEAST_EFFECTIVE_ROWS} effective rows: give more test rows, or a smaller budget, "
    "with which the policy can be followed further"
)


def _share(what: str, value: float) -> float:
    if not (is_real(value) and 0 < value < 1):
        raise InputError(f"{what} must be above 0 and below 1, got {value!r}")
    return float(value)


def _rows(table: Table, clip: float, seed: int) -> _Rows:
    always = np.logical_and.reduce(np.asarray(table.available))
    return _Rows(table, always, assign_folds(len(table.y), seed), clip)


def _situation(
    policy: Policy, problem: Problem, predictor: Predictor, protocol: Protocol, budget: float, n_steps: int
) -> Situation:
    amount = jnp.asarray(budget, jnp.float32)
    there: Problem = eqx.tree_at(lambda each: each.budget, problem.without_names(), amount)
    return Situation(policy.at(amount), there, predictor, protocol, n_steps)


def _at_budget(
    key: PRNGKeyArray,
    budget: float,
    situation: Situation,
    rows: _Rows,
    restorer: Restorer | None,
    draws: int,
) -> tuple[dict[str, Any], Weights, dict[str, Sample]]:
    """Follow the rows; give how much they tell, weights and, if it is enough, each estimator's sample."""
    table, always, fold, clip = rows
    paths = follow(key, situation, table)
    weights = step_weights(paths, situation.problem, table, always, fold, clip)
    facts = _facts(budget, paths, weights.through[:, -1])
    if facts["reason"]:
        return facts, weights, {}
    completed = completed_sample(situation, table, paths, weights.through)
    if restorer is None:
        return facts, weights, {"ipw": completed}
    key = jr.fold_in(key, 1)
    draw = doubly_robust_sample(
        key, situation, table, paths, weights.through, restorer, always, draws, completed
    )
    return facts, weights, {"ipw": completed, "dr": draw}


def _facts(budget: float, paths: Paths, weight: Float[np.ndarray, " rows"]) -> dict[str, Any]:
    """Say how much the rows tell at one budget, and whether it is enough."""
    total = weight.sum()
    effective = float(total**2 / np.square(weight).sum()) if total > 0 else 0.0
    followed, n_rows = int(paths.completed.sum()), len(weight)
    enough = effective >= LEAST_EFFECTIVE_ROWS
    reason = (
        f"at budget {budget:g} {followed} of {n_rows} rows could be followed to the end, which tell as much "
        f"as {effective:.1f} rows of equal weight"
    )
    return {
        "budget": budget,
        "effective_rows": effective,
        "followed_rows": followed,
        "n_rows": n_rows,
        "reason": "" if enough else reason,
    }


def _frame(
    estimator: str, sample: Sample | None, weights: Weights, facts: dict[str, Any], bootstrap: _Bootstrap
) -> pd.DataFrame:
    """Tabulate one estimator's scores at one budget; NaN where there is no sample."""
    nothing = dict.fromkeys(METRICS, np.nan)
    estimate, low, high = nothing, nothing, nothing
    if sample is not None:
        estimate = measure_sample(sample)
        low, high = intervals(sample, facts["n_rows"], *bootstrap, weights.surplus)
    return pd.DataFrame(
        {
            "budget": facts["budget"],
            "estimator": estimator,
            "metric": metric,
            "estimate": estimate[metric],
            "low": low[metric],
            "high": high[metric],
            **{name: facts[name] for name in ("effective_rows", "followed_rows", "n_rows", "reason")},
        }
        for metric in METRICS
    )
