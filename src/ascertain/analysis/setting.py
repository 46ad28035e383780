"""Which mechanism, rate and restorer a figure is about."""

from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from ascertain.analysis.results import Results
from ascertain.errors import InputError
from ascertain.reporting.names import in_order, mechanism_name, restorer_name

MAIN_RATE = 0.7  # the paper's main figure and table 2: the other rates show the same, weaker


class Setting(NamedTuple):
    """How cells were hidden, and what they were restored by."""

    mechanism: str
    rate: float
    restorer: str  # '' where nothing was restored

    def describe(self) -> str:
        """Name the mechanism and the rate for a title."""
        return f"{mechanism_name(self.mechanism)}, $p = {self.rate:g}$"


def main_setting(results: Results, rate: float = MAIN_RATE) -> Setting:
    """Give the paper's main setting, MCAR at 0.7 with the PVAE, or what comes nearest in a study without it.

    Parameters
    ----------
    results
        The results.
    rate
        The rate to prefer; the largest is taken where it was not studied.
    """
    hidden = results.scores[results.scores["mechanism"] != ""]
    if hidden.empty:
        raise InputError(
            "the results hold no cell with missing data; damage needs the treatment 'restricted'"
        )
    mechanism = in_order("mechanism", hidden["mechanism"])[0]
    rates = hidden.loc[hidden["mechanism"] == mechanism, "rate"]
    nearest = rate if (rates == rate).any() else float(rates.max())
    return Setting(mechanism, nearest, main_restorer(hidden))


def main_restorer(frame: pd.DataFrame) -> str:
    """Give the paper's restorer, the PVAE, or the first other one; '' where nothing was restored."""
    found = sorted(set(frame["restorer"]) - {""})
    return "pvae" if "pvae" in found else next(iter(found), "")


def at_setting(frame: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """Keep the rows of a setting, and those that were not restored by anything."""
    wanted = (frame["mechanism"] == setting.mechanism) & (frame["rate"] == setting.rate)
    return frame[wanted & frame["restorer"].isin(("", setting.restorer))]


def narrowed(results: Results, setting: Setting) -> Results:
    """Keep the scores of a setting and those on complete data."""
    frame = results.results
    complete = frame[frame["treatment"] == "complete"]
    return replace(results, results=pd.concat([complete, at_setting(frame, setting)], ignore_index=True))


def restored_by(setting: Setting) -> str:
    """Say what restoration is in this setting, for a legend."""
    return f"restored ({restorer_name(setting.restorer)})" if setting.restorer else "restored"
