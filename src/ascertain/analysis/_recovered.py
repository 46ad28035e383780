"""What each restorer recovers of the damage, and where it hurts: beyond the paper, for several restorers.

Everything is computed from a frame of changes (`changes`), which can be narrowed before: to some datasets, to
some methods. State variants are policies of their own here, and a pair is a policy and a dataset.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from ascertain import restoration
from ascertain.analysis._bootstrap import LEVELS, standard_error, weights
from ascertain.analysis._damage import is_damaged
from ascertain.analysis._results import Results
from ascertain.analysis.paper._numbers import METHODS
from ascertain.errors import InputError
from ascertain.reporting._names import in_order, without_baselines
from ascertain.restoration._treatments import PAPERS, TREATMENTS

# `policies` is "paper" for the paper's, "other" for the rest: they are never averaged with each other.
HOLES = ["policies", "mechanism", "rate"]
AUTO = "auto"  # the treatment that is one of the others, chosen without complete rows
WAY = ["treatment", "restorer"]  # what is done about holes; `restorer` is '' where nothing is restored
SETTING = [*HOLES, *WAY]
POLICY = ["method", "state"]
PAIR = [*POLICY, "dataset"]
LEVEL = 0.05  # of the tests, over all pairs of a setting
_CELL = [*PAIR, "split", "budget", "train_budget"]
_ROUNDING = 1e-9  # differences of scores are not exact


def compares_ways(results: Results) -> bool:
    """Whether there is more than the paper has: several restorers, or a treatment beyond its three."""
    found = results.results
    restorers = set(found["restorer"]) - {""}
    return len(restorers) > 1 or not set(found["treatment"]) <= set(PAPERS)


def changes(results: Results) -> pd.DataFrame:
    """Damage and gain of every cell, at each dataset's largest budget, without baselines.

    Returns
    -------
    DataFrame
        One row per policy, dataset, split, mechanism, rate and way of treating holes other than restricted
        training (columns `SETTING`, `PAIR`, `split`): `damage` is complete - restricted, `gain` is this way -
        restricted. Only cells of which all three are finished.
    """
    scores = without_baselines(results.scores)
    complete, restricted = (scores[scores["treatment"] == arm] for arm in PAPERS[:2])
    treated = scores[~scores["treatment"].isin(PAPERS[:2])]
    holes = ["mechanism", "rate"]
    found = (
        treated[[*_CELL, *holes, *WAY, "score"]]
        .merge(restricted[[*_CELL, *holes, "score"]], on=[*_CELL, *holes], suffixes=("", "_restricted"))
        .merge(complete[[*_CELL, "score"]], on=_CELL, suffixes=("", "_complete"))
    )
    found["damage"] = found["score_complete"] - found["score_restricted"]
    found["gain"] = found["score"] - found["score_restricted"]
    keys = [*SETTING, *PAIR, "split"]
    return in_order_of(with_groups(found), keys)[[*keys, "damage", "gain"]]


def with_groups(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the column `policies`: whether a row's method is one of the paper's."""
    return frame.assign(policies=np.where(frame["method"].isin(list(METHODS)), "paper", "other"))


def compared_changes(results: Results) -> pd.DataFrame:
    """The same where a study compares ways of treating holes; `InputError` where it does not."""
    if not compares_ways(results):
        raise InputError(
            "the results hold no treatment beyond the paper's and at most one restorer; "
            "what is recovered is compared between several"
        )
    found = changes(results)
    if found.empty:
        raise InputError(
            "no policy has a score after training on complete, on restricted and on otherwise treated data "
            "in one split"
        )
    return found


def recovered(changes: pd.DataFrame, by: Sequence[str] = SETTING) -> pd.DataFrame:
    """The share of the damage that is recovered: mean gain / mean damage.

    Intervals are 95% bootstrap intervals over splits. A resample draws whole splits, so all cells of a split
    come together, and is the same one for every row.

    Parameters
    ----------
    changes
        Those of `changes`, all or some.
    by
        The columns that tell rows apart.

    Returns
    -------
    DataFrame
        One row per group: the number of `pairs` of policy and dataset and of `splits`, and `damage`, `gain`
        and `share`, each with `_low` and `_high`. There is no share (NaN) where the mean damage is below
        0.01, and no interval where there is one split, or where that of the damage reaches zero.
    """
    rows = []
    for (damage, n), (gain, _) in zip(_sums(changes, "damage", by), _sums(changes, "gain", by), strict=True):
        mean_damage = _ratio(damage, n)
        damaged = bool(is_damaged(np.array([mean_damage.value]))[0])
        share = _ratio(gain, damage) if damaged else _UNKNOWN
        rows.append((len(n), *mean_damage, *_ratio(gain, n), *share))
    ends = [f"{name}{end}" for name in ("damage", "gain", "share") for end in ("", "_low", "_high")]
    groups = _groups(changes, by)
    pairs = changes[_with_pair(by)].drop_duplicates().groupby(list(by), sort=False).size()
    found = pd.DataFrame(rows, columns=["splits", *ends])
    return pd.concat([groups.assign(pairs=pairs.to_numpy()), found], axis="columns")


def undamaged(changes: pd.DataFrame, by: Sequence[str] = SETTING) -> pd.DataFrame:
    """The mean change where there is nothing to recover: a good restorer leaves it at zero or above.

    In each split these are the pairs whose mean damage on the *other* splits is below 0.01. So the split's
    own noise, which damage and gain share, does not choose them.

    Returns
    -------
    DataFrame
        One row per group: how many cells were `chosen`, and their mean gain `change` with its 95% bootstrap
        interval over splits (`change_low`, `change_high`).
    """
    damage = changes.groupby(_with_pair(by), sort=False)["damage"]
    others = damage.transform("size") - 1
    elsewhere = (damage.transform("sum") - changes["damage"]) / others.where(others > 0)
    chosen = elsewhere.notna() & ~is_damaged(elsewhere.to_numpy(np.float64))
    rows = [
        (int(n.sum()), *_ratio(gain, n))
        for gain, n in _sums(changes.assign(gain=changes["gain"].where(chosen)), "gain", by)
    ]
    found = pd.DataFrame(rows, columns=["chosen", "change", "change_low", "change_high"])
    return pd.concat([_groups(changes, by), found], axis="columns")


def losses(changes: pd.DataFrame, by: Sequence[str] = SETTING) -> pd.DataFrame:
    """Test for every pair of policy and dataset whether it loses against restricted training.

    A one-sided paired t-test over splits, which asks for a loss only, with Holm's correction (1979) over all
    pairs of a group at 5%.

    Returns
    -------
    DataFrame
        One row per group and pair: `splits`, the mean `gain` with its standard error `gain_se`, the p-value
        `p`, Holm's `p_holm`, and whether it `loses`. With one split there is no test (NaN).
    """
    found = (
        changes.groupby(_with_pair(by), sort=False)["gain"]
        .agg(splits="size", gain="mean", gain_se=standard_error)
        .reset_index()
    )
    mean, error = found["gain"].to_numpy(np.float64), found["gain_se"].to_numpy(np.float64)
    found["p"] = _p_of_loss(mean, error, found["splits"].to_numpy())
    found["p_holm"] = found.groupby(list(by), sort=False)["p"].transform(holm)
    return found.assign(loses=found["p_holm"] <= LEVEL)


def summary(changes: pd.DataFrame, by: Sequence[str] = SETTING) -> pd.DataFrame:
    """Put `recovered` and `undamaged` together, with the number of pairs that lose and the worst one.

    `losing` of `tested` pairs lose. The worst pair has the lowest mean gain: `worst_method`, `worst_state`,
    `worst_dataset`, `worst_gain` and `worst_gain_se`.
    """
    pairs = losses(changes, by)
    lost = pairs.groupby(list(by), sort=False).agg(losing=("loses", "sum"), tested=("p", "count"))
    worst = pairs.loc[pairs.groupby(list(by))["gain"].idxmin(), [*by, *PAIR, "gain", "gain_se"]]
    worst = worst.rename(columns={name: f"worst_{name}" for name in (*PAIR, "gain", "gain_se")})
    found = recovered(changes, by).merge(undamaged(changes, by), on=list(by))
    return found.merge(lost.reset_index(), on=list(by)).merge(worst, on=list(by))


def by_dataset(changes: pd.DataFrame) -> pd.DataFrame:
    """`recovered` on each dataset, and in the columns `without_` on all the others together."""
    alone = recovered(changes, [*SETTING, "dataset"])
    others = [
        recovered(changes[changes["dataset"] != dataset]).assign(dataset=dataset)
        for dataset in changes["dataset"].unique()
    ]
    rest = pd.concat(others).set_index([*SETTING, "dataset"]).drop(columns=["pairs", "splits"])
    return alone.merge(rest.add_prefix("without_"), on=[*SETTING, "dataset"], how="left")


def against_one_choice(changes: pd.DataFrame, by: Sequence[str] = HOLES) -> pd.DataFrame:
    """Compare `auto` with one way of treating holes for all splits, made out on the other splits.

    For each pair of policy and dataset and each split this is the way, restricted training among them, with
    the largest mean gain on the other splits. So it knows the scores of complete rows, which `auto` does not.

    Returns
    -------
    DataFrame
        One row per group in which something was chosen: the number of `pairs` and of `splits`, the mean gains
        `auto` and `single`, and their `difference` with its 95% bootstrap interval over splits
        (`difference_low`, `difference_high`).
    """
    cell = [*HOLES, *PAIR]
    auto = changes[changes["treatment"] == AUTO].rename(columns={"gain": "auto"})
    others = changes[changes["treatment"] != AUTO]
    nothing = auto.assign(treatment="restricted", restorer="", gain=0.0)
    ways = pd.concat([nothing[others.columns], others], ignore_index=True)
    gains = ways.groupby([*cell, *WAY], sort=False)["gain"]
    further = gains.transform("size") - 1
    ways["elsewhere"] = (gains.transform("sum") - ways["gain"]) / further.where(further > 0)
    # The simpler one, which comes first, where several are as good.
    known = ways.dropna(subset="elsewhere")
    best = known.loc[known.groupby([*cell, "split"])["elsewhere"].idxmax()].rename(columns={"gain": "single"})
    both = auto.merge(best[[*cell, "split", "single"]], on=[*cell, "split"])
    both["difference"] = both["auto"] - both["single"]
    rows = [(len(n), *_ratio(total, n)) for total, n in _sums(both, "difference", by)]
    means = both.groupby(list(by), sort=False)[["auto", "single"]].mean().reset_index(drop=True)
    pairs = both[_with_pair(by)].drop_duplicates().groupby(list(by), sort=False).size()
    found = pd.DataFrame(rows, columns=["splits", "difference", "difference_low", "difference_high"])
    groups = _groups(both, by).assign(pairs=pairs.to_numpy())
    return pd.concat([groups, means, found], axis="columns")


def in_order_of(changes: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Sort by columns: the paper's policies first, and parts as they are registered."""
    ranks = {
        "policies": ["paper", "other"],
        "treatment": [*TREATMENTS, AUTO, *sorted(set(changes["treatment"]) - {*TREATMENTS, AUTO})],
        "restorer": sorted(set(changes["restorer"]), key=_restorer_rank),
        "mechanism": in_order("mechanism", changes["mechanism"]),
        "method": in_order("method", changes["method"]),
        "dataset": in_order("dataset", changes["dataset"]),
    }
    places = changes.assign(**{name: changes[name].map(known.index) for name, known in ranks.items()})
    order = places.sort_values(list(keys), kind="stable").index
    return changes.loc[order].reset_index(drop=True)


def holm(p: "pd.Series[float]") -> "pd.Series[float]":
    """Adjust p-values by Holm's step-down procedure; NaN are no tests and stay NaN.

    Examples
    --------
    >>> holm(pd.Series([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    tested = p.dropna().sort_values()
    left = np.arange(len(tested), 0, -1)  # tests that are not rejected yet
    adjusted = np.maximum.accumulate(tested.to_numpy(np.float64) * left)
    return pd.Series(np.minimum(adjusted, 1.0), index=tested.index).reindex(p.index)


class _Ratio(NamedTuple):
    """A ratio of two sums over splits, with its 95% bootstrap interval."""

    value: float
    low: float
    high: float


_UNKNOWN = _Ratio(float("nan"), float("nan"), float("nan"))


def _groups(changes: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The groups, in the order in which they appear."""
    return changes[list(by)].drop_duplicates(ignore_index=True)


def _with_pair(by: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*by, *PAIR]))


def _sums(
    changes: pd.DataFrame, column: str, by: Sequence[str]
) -> list[tuple[Float[np.ndarray, " splits"], Float[np.ndarray, " splits"]]]:
    """For each group, the sum and the number of known values in each of its splits."""
    group = changes.groupby(list(by), sort=False).ngroup()
    by_split = changes[column].groupby([group, changes["split"]]).agg(["sum", "count"]).astype(np.float64)
    parts = (part.to_numpy() for _, part in by_split.groupby(level=0))
    return [(part[:, 0], part[:, 1]) for part in parts]


def _ratio(top: Float[np.ndarray, " splits"], bottom: Float[np.ndarray, " splits"]) -> _Ratio:
    """Ratio of the sums; unknown unless the denominator is positive, in resamples as well for an interval."""
    if not bottom.sum() > 0:
        return _UNKNOWN
    value = float(top.sum() / bottom.sum())
    if len(top) < 2:
        return _Ratio(value, float("nan"), float("nan"))
    drawn = weights(len(top))
    tops, bottoms = drawn @ top, drawn @ bottom
    if np.percentile(bottoms, LEVELS[0]) <= 0:
        return _Ratio(value, float("nan"), float("nan"))
    positive = bottoms > 0
    low, high = np.percentile(tops[positive] / bottoms[positive], LEVELS)
    return _Ratio(value, float(low), float(high))


def _p_of_loss(
    mean: Float[np.ndarray, " pairs"], error: Float[np.ndarray, " pairs"], splits: np.ndarray
) -> Float[np.ndarray, " pairs"]:
    """One-sided p-values; where all splits change by the same, a loss is certain, and else there is none."""
    same = error < _ROUNDING
    with np.errstate(invalid="ignore"):
        p = stats.t.cdf(mean / np.where(same, 1.0, error), np.maximum(splits - 1, 1))
    certain: np.ndarray = np.where(same, np.where(mean < -_ROUNDING, 0.0, 1.0), p)
    return certain


def _restorer_rank(restorer: str) -> tuple[int, str, int, str]:
    """As registered, then by the number of completions."""
    name, _, completions = restorer.partition(":")
    known = restoration.names()
    place = known.index(name) if name in known else len(known)
    return place, name, len(completions), completions
