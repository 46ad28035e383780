"""What it changes to show a policy which acquisitions are available: (s,m) against (s) (appendix B.1)."""

import pandas as pd

from ascertain.analysis.damage import ARMS, CELL, paired_scores
from ascertain.analysis.results import Results

_CELL = [column for column in CELL if column != "state"]


def state_conditioning(results: Results) -> pd.DataFrame:
    """Give how much better (s,m) does than (s), beyond its lead on complete data.

    In each split: (score of (s,m) - score of (s)) minus the same difference on complete data; then the mean
    over splits.

    Returns
    -------
    DataFrame
        One row per dataset, method with both variants, mechanism, rate and restorer: `restricted` and
        `restored` (NaN where nothing is restored), the number of `splits`, and `complete`, the lead that was
        taken off.
    """
    scores = paired_scores(results, "variant").dropna(subset=["complete", "restricted"])
    by_split = [*_CELL, "split"]
    without, with_mask = (scores[scores["state"] == state].set_index(by_split) for state in ("s", "sm"))
    shared = without.index.intersection(with_mask.index)
    lead = with_mask.loc[shared, list(ARMS)] - without.loc[shared, list(ARMS)]
    beyond = lead[["restricted", "restored"]].sub(lead["complete"], axis=0).assign(complete=lead["complete"])
    means = beyond.groupby(level=_CELL).mean()
    means["splits"] = beyond.groupby(level=_CELL).size()
    return means.reset_index()
