"""The mechanism, rate and restorer that a figure is about."""

from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from ascertain.analysis.results import Results
from ascertain.errors import InputError
from ascertain.reporting.names import in_order, mechanism_name, restorer_name

_MAIN_RATE = 0.7  # of the paper's main figure and table 2: the other rates show the same, weaker


class Setting(NamedTuple):
    """How values were hidden, and what restored them."""

    mechanism: str
    rate: float
    restorer: str  # '' where nothing was restored

    def describe(self) -> str:
        """Mechanism and rate for the title of a figure."""
        return f"{mechanism_name(self.mechanism)}, $p = {self.rate:g}$"

    def restored(self) -> str:
        """Label of restored training for a legend."""
        return f"restored ({restorer_name(self.restorer)})" if self.restorer else "restored"


PAPER_SETTING = Setting("mcar", _MAIN_RATE, "pvae")


def main_setting(results: Results, rate: float = _MAIN_RATE) -> Setting:
    """Find the paper's main setting, MCAR at 0.7 with the PVAE, or the closest that the study has.

    Parameters
    ----------
    results
        The results.
    rate
        The preferred rate; a study without it is shown at its largest rate.
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
    """The paper's restorer, the PVAE, or else the first by alphabet; '' where nothing was restored."""
    found = sorted(set(frame["restorer"]) - {""})
    return "pvae" if "pvae" in found else next(iter(found), "")


def at_setting(frame: pd.DataFrame, setting: Setting) -> pd.DataFrame:
    """Keep the rows of a setting, and those of its mechanism and rate that were not restored."""
    wanted = (frame["mechanism"] == setting.mechanism) & (frame["rate"] == setting.rate)
    return frame[wanted & frame["restorer"].isin(("", setting.restorer))]


def narrowed(results: Results, setting: Setting) -> Results:
    """Keep the scores of a setting and those on complete data."""
    frame = results.results
    complete = frame[frame["treatment"] == "complete"]
    return replace(results, results=pd.concat([complete, at_setting(frame, setting)], ignore_index=True))
