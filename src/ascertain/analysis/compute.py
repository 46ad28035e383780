"""What restoration costs in time (appendix B.3)."""

from typing import NamedTuple

import pandas as pd

from ascertain.analysis.results import Results
from ascertain.errors import InputError
from ascertain.reporting.names import without_baselines

_HOLES = ["dataset", "mechanism", "rate", "split", "device"]
_TREATED = [*_HOLES, "treatment", "restorer"]
_POLICY = ["method", "state"]
_BUILT_ON_VAE = "odin"  # its pretraining is a PVAE on the treated data
_BY_VAE = "pvae"  # restores with the PVAE of the restricted data


class Compute(NamedTuple):
    """Seconds of restricted and restored training, pair by pair, and what they come to."""

    pairs: pd.DataFrame
    median_ratio: float
    within_1_25: float  # share of pairs
    within_1_5: float
    median_amortised: float  # seconds


def compute_comparison(results: Results) -> Compute:
    """Compare the time that each policy takes on restored and on restricted data.

    A policy is charged its own fitting and evaluation and an equal part of whatever it shares with others:
    pretraining with the method's other state variant; the PVAE and the restored tables with every policy that
    uses them. Compilation is not charged. Pairs are of one kind of device; baselines are left out.

    Returns
    -------
    pairs
        One row per dataset, mechanism, rate, split, device, restorer, method and state: seconds `restricted`
        and `restored`, their `ratio`, and `amortised`, the part of `restored` that goes into restoring.
    median_ratio, within_1_25, within_1_5, median_amortised
        As `summarise_pairs` gives them.
    """
    timings = results.timings.dropna(subset="seconds")
    policies = _own_seconds(without_baselines(timings[timings["stage"] == "fit"]), timings)
    restricted = policies[policies["treatment"] == "restricted"]
    restored = _with_restoration(policies, timings)
    on = [*_HOLES, *_POLICY]
    pairs = restricted[[*on, "seconds"]].merge(
        restored[[*on, "restorer", "seconds", "amortised"]], on=on, suffixes=("_restricted", "_restored")
    )
    pairs = pairs.rename(columns={"seconds_restricted": "restricted", "seconds_restored": "restored"})
    pairs = pairs[pairs["restricted"] > 0].reset_index(drop=True)
    pairs["ratio"] = pairs["restored"] / pairs["restricted"]
    if pairs.empty:
        raise InputError(
            "the timings hold no policy that was trained both on restricted and on restored data"
        )
    return summarise_pairs(pairs)


def summarise_pairs(pairs: pd.DataFrame) -> Compute:
    """Give the numbers of the paper's text for some of the pairs."""
    ratio = pairs["ratio"]
    return Compute(
        pairs,
        float(ratio.median()),
        float((ratio <= 1.25).mean()),
        float((ratio <= 1.5).mean()),
        float(pairs["amortised"].median()),
    )


def _own_seconds(fits: pd.DataFrame, timings: pd.DataFrame) -> pd.DataFrame:
    """Give what each policy takes apart from restoration: pretraining and fitting."""
    policies = fits[[*_TREATED, *_POLICY, "seconds"]].copy()
    pretraining = timings[timings["stage"] == "pretrain"][[*_TREATED, *_POLICY, "seconds"]]
    own = pretraining[pretraining["state"] != ""].groupby([*_TREATED, *_POLICY])["seconds"].sum()
    shared = pretraining[pretraining["state"] == ""].groupby([*_TREATED, "method"])["seconds"].sum()
    variants = policies.groupby([*_TREATED, "method"])["seconds"].transform("size")
    policies["seconds"] += _looked_up(own, policies) + _looked_up(shared, policies) / variants
    # The PVAE of the restricted data serves the restorer as well, which is charged for it below.
    vae = _vae_seconds(timings) / _vae_users(policies)
    return policies.assign(
        seconds=policies["seconds"]
        + _looked_up(vae, policies).where(policies["method"] == _BUILT_ON_VAE, 0.0)
    )


def _with_restoration(policies: pd.DataFrame, timings: pd.DataFrame) -> pd.DataFrame:
    """Add each restored policy's part of restoring; leave out those whose restoring was not timed."""
    restored = policies[policies["treatment"] == "restored"].copy()
    drawing = timings[timings["stage"] == "restore"].groupby(_TREATED)["seconds"].sum()
    sharing = restored.groupby(_TREATED)["seconds"].transform("size")
    amortised = _looked_up(drawing, restored, missing=float("nan")) / sharing
    vae = _vae_seconds(timings) / _vae_users(policies)
    of_restricted = restored.assign(treatment="restricted", restorer="")
    fitting = _looked_up(vae, of_restricted, missing=float("nan"))
    amortised += fitting.where(restored["restorer"] == _BY_VAE, 0.0)
    restored = restored.assign(amortised=amortised, seconds=restored["seconds"] + amortised)
    return restored.dropna(subset="amortised")


def _vae_seconds(timings: pd.DataFrame) -> "pd.Series[float]":
    return timings[timings["stage"] == "vae"].groupby(_TREATED)["seconds"].sum()


def _vae_users(policies: pd.DataFrame) -> "pd.Series[int]":
    """Count, for the data that each PVAE was fitted to, the policies that use it."""
    built_on = policies[policies["method"] == _BUILT_ON_VAE]
    restored_with = policies[policies["restorer"] == _BY_VAE].assign(treatment="restricted", restorer="")
    return pd.concat([built_on, restored_with]).groupby(_TREATED).size()


def _looked_up(
    seconds: "pd.Series[float]", policies: pd.DataFrame, missing: float = 0.0
) -> "pd.Series[float]":
    """Give each policy the seconds of the work that has its keys."""
    keys = pd.MultiIndex.from_frame(policies[list(seconds.index.names)])
    return pd.Series(seconds.reindex(keys).to_numpy(float), index=policies.index).fillna(missing)
