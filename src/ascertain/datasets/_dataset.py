"""A dataset: rows, the problem they pose, and how they are split and preprocessed."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.model_selection import train_test_split

from ascertain._core.checks import check_budget, check_count
from ascertain.errors import InputError
from ascertain.metrics import Metric as Metric
from ascertain.problem import Problem, Table
from ascertain.protocol import PAPER, Protocol

N_SPLITS = 5
FIRST_SEED = 42  # of split 0; split i uses 42 + i
_TEST_SEED = 100  # of the test set that all stratified splits share


class RawRows(NamedTuple):
    """Features in their own units, NaN where not measured, and class numbers.

    Examples
    --------
    >>> from ascertain import load
    >>> rows = load("cube").draw(0)
    >>> rows.x.shape, rows.y.shape
    ((1000, 20), (1000,))
    """

    x: Float[np.ndarray, "instances features"]
    y: Int[np.ndarray, " instances"]


class Split(NamedTuple):
    """The three parts of a dataset, preprocessed.

    Examples
    --------
    >>> from ascertain import load
    >>> train, valid, test = load("cube").split(0)
    >>> len(train.y), len(valid.y), len(test.y)
    (600, 200, 200)
    """

    train: Table
    valid: Table
    test: Table


class Preprocessing(NamedTuple):
    """What happens to the features before anything is learned from them."""

    scale: bool = True  # to mean 0 and (population) deviation 1
    impute: bool = False  # missing cells by the mean, as the reference implementation does
    over_all_rows: bool = True  # whether the reference takes these statistics from all rows


# Of datasets that are not the paper's: scaled by the training part, their holes left as they are.
KEEP_HOLES = Preprocessing(scale=True, impute=False, over_all_rows=False)


class Preparation(NamedTuple):
    """How the features of a split were prepared: holes are filled, then values are shifted and scaled."""

    fill: Float[np.ndarray, " features"]  # NaN where holes stay
    shift: Float[np.ndarray, " features"]
    scale: Float[np.ndarray, " features"]

    def __call__(self, x: Float[np.ndarray, "instances features"]) -> Float[np.ndarray, "instances features"]:
        """Prepare rows in the dataset's own units."""
        return (np.where(np.isnan(x), self.fill, x) - self.shift) / self.scale


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with a problem, its budgets, and the reference's way of splitting and preprocessing them.

    Attributes
    ----------
    name
        The name in the catalog.
    problem
        Actions, what they reveal and cost, classes, names; its budget is the largest of `budgets`.
    budgets
        The budgets that results are reported at, ascending.
    draw
        Returns the rows for a seed. Real data are the same for every seed; synthetic data are drawn with it.
    metric
        The score that is reported: accuracy, or the macro-averaged F1.
    stratified
        Whether splits are stratified by class and share one test set.
    preprocessing
        What happens to the features. Those that are known from the start (`problem.known`) are always at
        their means where a row lacks them.
    source, licence
        Where the rows come from and on what terms.

    Examples
    --------
    >>> from ascertain import load
    >>> cube = load("cube")
    >>> cube.problem.n_actions, cube.budgets, cube.metric
    (20, (3, 5, 10), 'accuracy')
    """

    name: str
    problem: Problem
    budgets: tuple[float, ...]
    draw: Callable[[int], RawRows]
    metric: Metric = "macro_f1"
    stratified: bool = True
    preprocessing: Preprocessing = KEEP_HOLES
    source: str = ""
    licence: str = ""

    @property
    def complete(self) -> bool:
        """Whether the rows of a split have every feature: none was missing, or what was is filled in."""
        missing = np.isnan(self.draw(FIRST_SEED).x).any(axis=0)
        return not (missing & ~self._filled).any()

    def split(self, index: int, protocol: Protocol = PAPER) -> Split:
        """Draw train, validation and test tables (60, 20 and 20%) of one of the five splits.

        Parameters
        ----------
        index
            Which split, from 0; its seed is 42 + index.
        protocol
            Its `standardise` says whether features are imputed and scaled by the statistics of the
            training part or, where the reference does so, of all rows.
        """
        rows, parts = self._draw(index)
        x = self._prepared_by(rows, parts, protocol)(rows.x)
        return Split(*(Table(x[part], rows.y[part], n_classes=self.problem.n_classes) for part in parts))

    def preparation(self, index: int, protocol: Protocol = PAPER) -> Preparation:
        """How the features of a split are prepared; takes what `split` takes."""
        return self._prepared_by(*self._draw(index), protocol)

    def at(self, budget: float) -> "Dataset":
        """The same dataset with another budget to plan for."""
        amount = check_budget(budget, self.problem.price_list.first)
        return replace(self, problem=self.problem.at(amount))

    def with_budgets(self, budgets: Iterable[float]) -> "Dataset":
        """The same dataset with other budgets to report at; the largest is planned for."""
        amounts = tuple(sorted(set(budgets)))
        return replace(self.at(amounts[-1]), budgets=amounts)

    @property
    def _filled(self) -> Bool[np.ndarray, " features"]:
        """Which features are at their means where they are missing."""
        return self.preprocessing.impute | np.asarray(self.problem.known)

    def _draw(self, index: int) -> tuple[RawRows, list[np.ndarray]]:
        """Draw the rows of a split, and which of them are in which part."""
        seed = FIRST_SEED + check_count("split", index, least=0)
        rows = self.draw(seed)
        parts = _stratified_parts(rows.y, seed) if self.stratified else _shuffled_parts(len(rows.y), seed)
        return rows, parts

    def _prepared_by(self, rows: RawRows, parts: list[np.ndarray], protocol: Protocol) -> Preparation:
        everything = protocol.standardise == "all" and self.preprocessing.over_all_rows
        fitted = rows.x if everything else rows.x[parts[0]]
        n_features = fitted.shape[1]
        shift, scale, fill = np.zeros(n_features), np.ones(n_features), np.full(n_features, np.nan)
        if not (self.preprocessing.scale or self._filled.any()):
            return Preparation(fill, shift, scale)
        for column in np.flatnonzero(np.isnan(fitted).all(axis=0))[:1]:
            name = self.problem.feature_names[column] if self.problem.feature_names else column
            raise InputError(f"{self.name}: no training row has the feature {name!r}; drop it")
        mean = np.nanmean(fitted, axis=0)
        if self.preprocessing.impute:  # the reference scales by the deviation of imputed columns
            fitted = np.where(np.isnan(fitted), mean, fitted)
        if self.preprocessing.scale:
            deviation = np.nanstd(fitted, axis=0)
            shift, scale = mean, np.where(deviation > 0, deviation, 1.0)
        return Preparation(np.where(self._filled, mean, np.nan), shift, scale)


def _shuffled_parts(n: int, seed: int) -> list[np.ndarray]:
    """Split as the reference does: a shuffled list, cut at 60% and 80%."""
    order = list(range(n))
    random.Random(seed).shuffle(order)
    ends = int(0.6 * n), int(0.6 * n) + int(0.2 * n)
    return np.split(np.array(order), ends)


def _stratified_parts(y: np.ndarray, seed: int) -> list[np.ndarray]:
    """Split as the reference does: one test set for all seeds, the rest by seed, both stratified."""
    rest, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=_TEST_SEED, stratify=y)
    train, valid = train_test_split(rest, test_size=0.25, random_state=seed, stratify=y[rest])
    return [train, valid, test]
