"""What restoration costs in time (appendix B.3)."""

from typing import NamedTuple

import pandas as pd

from ascertain import methods, restoration
from ascertain.analysis._results import Results
from ascertain.errors import InputError
from ascertain.reporting._names import without_baselines

_HOLES = ["dataset", "mechanism", "rate", "split", "device"]
_TREATED = [*_HOLES, "treatment", "restorer"]
_POLICY = ["method", "state"]


class Compute(NamedTuple):
    """Seconds of restricted and restored training, pair by pair, and the paper's summary of them.

    The pairs have one row per dataset, mechanism, rate, split, device, restorer, method and state: seconds
    `restricted` and `restored`, their `ratio`, and `amortised`, the part of `restored` that goes into
    restoring.
    """

    pairs: pd.DataFrame
    median_ratio: float
    within_1_25: float  # share of pairs
    within_1_5: float
    median_amortised: float  # seconds

    @classmethod
    def of(cls, pairs: pd.DataFrame) -> "Compute":
        """Summarise some pairs."""
        ratio = pairs["ratio"]
        return cls(
            pairs,
            float(ratio.median()),
            float((ratio <= 1.25).mean()),
            float((ratio <= 1.5).mean()),
            float(pairs["amortised"].median()),
        )


def compute_comparison(results: Results) -> Compute:
    """Compare the training time of each policy on restored and on restricted data.

    A policy is charged its own fitting and evaluation and an equal share of what it uses together with
    others: pretraining with the method's other state variant; the PVAE and the restored tables with every
    policy that uses them. Compilation is not charged. Pairs are of one kind of device, without baselines.
    """
    timings = results.timings.dropna(subset="seconds")
    fits = without_baselines(timings[timings["stage"] == "fit"])[[*_TREATED, *_POLICY, "seconds"]]
    # The PVAE of the restricted data serves the methods built on it and the restorer.
    vae = _seconds(timings, "vae", _TREATED) / _vae_users(fits)
    policies = fits.assign(seconds=_without_restoration(fits, timings, vae))
    restricted = policies[policies["treatment"] == "restricted"].rename(columns={"seconds": "restricted"})
    restored = _with_restoration(policies, timings, vae).rename(columns={"seconds": "restored"})
    on = [*_HOLES, *_POLICY]
    pairs = restricted[[*on, "restricted"]].merge(restored[[*on, "restorer", "restored", "amortised"]], on=on)
    pairs = pairs[pairs["restricted"] > 0].reset_index(drop=True)
    pairs["ratio"] = pairs["restored"] / pairs["restricted"]
    if pairs.empty:
        raise InputError(
            "the timings hold no policy that was trained both on restricted and on restored data"
        )
    return Compute.of(pairs)


def _without_restoration(
    policies: pd.DataFrame, timings: pd.DataFrame, vae: "pd.Series[float]"
) -> "pd.Series[float]":
    """Seconds of each policy's pretraining and fitting."""
    alone, shared = timings["state"] != "", timings["state"] == ""
    own = _seconds(timings[alone], "pretrain", [*_TREATED, *_POLICY])
    pretraining = _seconds(timings[shared], "pretrain", [*_TREATED, "method"])
    variants = policies.groupby([*_TREATED, "method"])["seconds"].transform("size")
    seconds = policies["seconds"] + (_of(policies, own) + _of(policies, pretraining) / variants)
    return seconds + _of(policies, vae).where(_builds_on_vae(policies), 0.0)


def _with_restoration(policies: pd.DataFrame, timings: pd.DataFrame, vae: "pd.Series[float]") -> pd.DataFrame:
    """Add each restored policy's share of restoring; drop policies whose restoring was not timed."""
    restored = policies[policies["treatment"] == "restored"]
    sharing = restored.groupby(_TREATED)["seconds"].transform("size")
    drawing = _of(restored, _seconds(timings, "restore", _TREATED), missing=float("nan")) / sharing
    fitting = _of(restored.assign(treatment="restricted", restorer=""), vae, missing=float("nan"))
    amortised = drawing + fitting.where(_restored_by_vae(restored), 0.0)
    restored = restored.assign(amortised=amortised, seconds=restored["seconds"] + amortised)
    return restored.dropna(subset="amortised")


def _vae_users(policies: pd.DataFrame) -> "pd.Series[int]":
    """Count, for the data that each PVAE was fitted to, the policies that use it."""
    built_on = policies[_builds_on_vae(policies)]
    restored_with = policies[_restored_by_vae(policies)].assign(treatment="restricted", restorer="")
    return pd.concat([built_on, restored_with]).groupby(_TREATED).size()


def _builds_on_vae(policies: pd.DataFrame) -> "pd.Series[bool]":
    """Whether each policy's pretraining is the PVAE of the treated data."""
    return policies["method"].isin([name for name in methods.names() if methods.get(name).shares])


def _restored_by_vae(policies: pd.DataFrame) -> "pd.Series[bool]":
    """Whether each policy's table was restored with the PVAE of the restricted data."""
    sharing = [name for name in restoration.names() if restoration.get(name).shares]
    return policies["restorer"].map(lambda text: text.partition(":")[0]).isin(sharing)


def _seconds(timings: pd.DataFrame, stage: str, by: list[str]) -> "pd.Series[float]":
    return timings[timings["stage"] == stage].groupby(by)["seconds"].sum()


def _of(policies: pd.DataFrame, seconds: "pd.Series[float]", missing: float = 0.0) -> "pd.Series[float]":
    """Look up the seconds that belong to each policy."""
    keys = pd.MultiIndex.from_frame(policies[list(seconds.index.names)])
    return pd.Series(seconds.reindex(keys).to_numpy(float), index=policies.index).fillna(missing)
