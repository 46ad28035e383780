"""Mean differences over methods, datasets and splits, with bootstrap intervals."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from ascertain.analysis._bootstrap import LEVELS, resamples
from ascertain.reporting._tables import number_text

Verdict = Literal["above", "below", "unclear", "unknown"]
DIGITS = 3


@dataclass(frozen=True)
class Effect:
    """A mean difference with its 95% bootstrap interval over splits; NaN limits where there is one split.

    It is judged as it is printed, to three decimals, so that no sentence contradicts its own numbers.

    Examples
    --------
    >>> effect = Effect(0.0312, -0.0121, 0.0502)
    >>> str(effect), effect.verdict
    ('0.031 (−0.012 to 0.050)', 'unclear')
    """

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, by_split: "pd.Series[float]") -> "Effect":
        """Average values that are one per split."""
        values = by_split.to_numpy(np.float64)
        if len(values) < 2:
            return cls(float(values.mean()), math.nan, math.nan)
        low, high = np.percentile(values[resamples(len(values))].mean(axis=1), LEVELS)
        return cls(float(values.mean()), float(low), float(high))

    @property
    def verdict(self) -> Verdict:
        """On which side of zero the interval lies."""
        if math.isnan(self.low) or math.isnan(self.high):
            return "unknown"
        if round(self.low, DIGITS) > 0:
            return "above"
        return "below" if round(self.high, DIGITS) < 0 else "unclear"

    @property
    def size(self) -> "Effect":
        """The difference with its sign turned if it is negative."""
        return self if self.mean >= 0 else Effect(-self.mean, -self.high, -self.low)

    def __str__(self) -> str:
        if self.verdict == "unknown":
            return number_text(self.mean, DIGITS)
        return f"{number_text(self.mean)} ({number_text(self.low)} to {number_text(self.high)})"


@dataclass(frozen=True)
class Differences:
    """Differences for each of some methods on each of some datasets, in the same splits."""

    values: pd.DataFrame  # one row per method and dataset, one column per split, without gaps
    left_out_methods: list[str]  # for unfinished cells
    left_out_datasets: list[str]

    @property
    def methods(self) -> list[str]:
        """The methods, by alphabet."""
        return sorted(set(self.values.index.get_level_values("method")))

    @property
    def datasets(self) -> list[str]:
        """The datasets, by alphabet."""
        return sorted(set(self.values.index.get_level_values("dataset")))

    @property
    def splits(self) -> int:
        """The number of splits."""
        return self.values.shape[1]

    def overall(self) -> Effect:
        """Average over everything."""
        return Effect.of(self.values.mean())

    def by(self, axis: Literal["method", "dataset"]) -> dict[str, Effect]:
        """Average for each method or dataset, the largest first."""
        means = self.values.groupby(level=axis).mean()
        effects = {str(name): Effect.of(row) for name, row in means.iterrows()}
        return dict(sorted(effects.items(), key=lambda item: (-item[1].mean, item[0])))

    def among(self, methods: Iterable[str]) -> "pd.Series[float]":
        """Average over some of the methods, split by split."""
        chosen = self.values.index.get_level_values("method").isin(list(methods))
        return self.values[chosen].mean()


def comparable(differences: pd.DataFrame) -> Differences | None:
    """Find the methods, datasets and splits that can be compared with each other.

    Means over different datasets must not be compared, so only the datasets count that every method has.
    Where there is none, the methods with the fewest datasets are left out. The columns are `method`,
    `dataset`, `split` and `difference`, and rows without a difference do not count.
    """
    found = differences.dropna(subset="difference")
    if found.empty:
        return None
    values = found.pivot_table(index=["method", "dataset"], columns="split", values="difference")
    methods, datasets = (values.index.get_level_values(name).astype(str) for name in ("method", "dataset"))
    of_method = {method: set(datasets[methods == method]) for method in methods.unique()}
    kept = dict(of_method)
    while not set.intersection(*kept.values()):
        kept.pop(min(kept, key=lambda method: (len(kept[method]), method)))
    shared = set.intersection(*kept.values())
    whole = values[methods.isin(kept) & datasets.isin(shared)].dropna(axis="columns")
    if whole.empty:
        return None
    every = set.union(*of_method.values())
    return Differences(whole, sorted(set(of_method) - set(kept)), sorted(every - shared))
