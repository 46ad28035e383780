"""A study's results beside the numbers that the paper publishes."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from ascertain.analysis._compute import Compute, compute_comparison
from ascertain.analysis._damage import damage_and_gain, is_damaged, paired_scores
from ascertain.analysis._results import PAPER_SETTING, Results, at_largest_budget, narrowed
from ascertain.analysis._routes import MEASURES, adaptivity, adaptivity_cells, correlations, route_table
from ascertain.analysis.paper import _numbers as paper
from ascertain.errors import InputError
from ascertain.reporting._names import dataset_name, in_order, kind_of, policy_name

_FAR = 2.0  # standard errors


class _Claim(NamedTuple):
    """A published quantity or statement beside ours; `blocked` says why the two cannot be compared."""

    what: str
    where: str
    ours: float = math.nan
    ours_se: float = math.nan
    paper: float = math.nan
    paper_se: float = math.nan
    rounding: float = 0.0005  # half a unit of the last printed digit
    note: str = ""
    blocked: str = ""
    holds: bool | None = None  # for statements, which have no standard error

    def judged(self) -> dict[str, Any]:
        """The claim with its verdict, as a row of the comparison."""
        difference = self.ours - self.paper
        # Where the paper gives no standard error, its five splits are taken to vary as much as ours.
        theirs = self.ours_se if math.isnan(self.paper_se) else self.paper_se
        far = difference / math.sqrt(self.ours_se**2 + theirs**2 + self.rounding**2)
        reason = self.blocked
        if not reason and self.holds is None and math.isnan(far):
            reason = "no standard error: one split only" if not math.isnan(self.ours) else "nothing of ours"
        agrees = self.holds if self.holds is not None else abs(far) <= _FAR
        return {
            "what": self.what,
            "where": self.where,
            "ours": self.ours,
            "ours_se": self.ours_se,
            "paper": self.paper,
            "paper_se": self.paper_se,
            "difference": difference,
            "standard_errors": math.nan if reason else far,
            "verdict": "not comparable" if reason else "agrees" if agrees else "differs",
            "note": "; ".join(part for part in (reason, self.note) if part),
        }


class _Ours:
    """The part of the results that the paper has too; properties raise `InputError` where there is none."""

    def __init__(self, results: Results):
        self.results = results
        self.where = f"MCAR 0.7, {results.protocol} protocol"

    @cached_property
    def routes(self) -> pd.DataFrame:
        """Table 1."""
        table = route_table(self.results)
        return table[table["dataset"].isin(list(paper.ROUTES))]

    @cached_property
    def main(self) -> Results:
        """The cells of the paper's main figure and table 2."""
        part = narrowed(self.results, PAPER_SETTING)
        cells = part.results[part.results["dataset"].isin(list(paper.ROUTES))]
        cells = cells[cells["method"].isin(list(paper.METHODS))]
        if not (cells["treatment"] == "restricted").any():
            raise InputError("the results hold no restricted cell of the paper's under MCAR at p = 0.7")
        return replace(part, results=cells)

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Damage and gain, by dataset and family."""
        return damage_and_gain(self.main, "family").dropna(subset="damage")

    @cached_property
    def margins(self) -> pd.DataFrame:
        """The cells that table 2 averages."""
        return adaptivity_cells(self.main)

    def other_methods(self) -> str:
        """Why a mean over our methods is not the paper's; '' if it is."""
        missing = set(paper.METHODS) - set(self.results.results["method"])
        if self.other_budgets():
            return self.other_budgets()
        if missing:
            return f"the study lacks {', '.join(policy_name(name) for name in sorted(missing))}"
        return next(filter(None, map(self.half_a_family, paper.TWO_STATES)), "")

    def other_budgets(self) -> str:
        """Which datasets were trained for another budget than the paper's; '' if none was."""
        trained = self.main.results.groupby("dataset")["train_budget"].max()
        other = [name for name, budget in trained.items() if budget != paper.ROUTES[str(name)].budget]
        names = ", ".join(dataset_name(str(name)) for name in other)
        return f"our budget of {names} is not the paper's" if other else ""

    def half_a_family(self, method: str) -> str:
        """Whether the study has only one of a method's two state variants; '' if not."""
        of_method = self.results.results["method"] == method
        if method in paper.TWO_STATES and self.results.results.loc[of_method, "state"].nunique() < 2:
            return f"the paper averages both state variants of {policy_name(method)}, the study has one"
        return ""


def compare_with_paper(results: Results) -> pd.DataFrame:
    """Set what the paper publishes beside the same quantities of a study.

    Returns
    -------
    DataFrame
        One row per quantity or statement of the paper that the results have something to say about: `what`,
        `where`, `ours`, `ours_se`, `paper`, `paper_se` (NaN where not published), `difference`,
        `standard_errors` (the difference divided by the combined standard error), `verdict` and `note`. The
        verdict is `agrees` for up to two standard errors, `differs` beyond, and `not comparable` where the
        study is not the paper's: other datasets in a mean, shortened training, other hardware.
    """
    parts: tuple[Callable[[_Ours], Iterable[_Claim]], ...] = (
        *(_route_claims, _route_orders, _method_claims, _correlation_claims, _method_order, _cube_nm_claims),
        *(_method_statements, _dataset_statements, _restoration_statement, _compute_claims),
    )
    ours = _Ours(results)
    blocked = "training was shortened" if bool(results.results["shortened"].any()) else ""
    rows: list[dict[str, Any]] = []
    for part in parts:
        try:
            found = list(part(ours))
        except InputError:  # the results hold nothing of the kind
            continue
        rows += [row._replace(blocked=blocked or row.blocked).judged() for row in found]
    return pd.DataFrame(rows, columns=list(_Claim("", "").judged()))


def _route_claims(ours: _Ours) -> Iterator[_Claim]:
    for _, row in ours.routes.iterrows():
        published = paper.ROUTES[str(row["dataset"])]
        other = f"our budget is {row['budget']:g}, the paper's {published.budget:g}"
        for measure, title in MEASURES.items():
            theirs: paper.Estimate = getattr(published, measure)
            yield _Claim(
                f"{title} (table 1)",
                dataset_name(str(row["dataset"])),
                *(row[measure], row[f"{measure}_se"], theirs.mean, theirs.error),
                note=_about_splits(int(row["splits"])),
                blocked="" if row["budget"] == published.budget else other,
            )


def _route_orders(ours: _Ours) -> Iterator[_Claim]:
    names = [dataset_name(name) for name in ours.routes["dataset"]]
    for measure, title in MEASURES.items():
        theirs = [getattr(paper.ROUTES[name], measure).mean for name in ours.routes["dataset"]]
        claim = _Claim(f"order of datasets by {title} (table 1)", f"{len(names)} datasets")
        yield from _compare_orders(claim, names, list(ours.routes[measure]), theirs)


def _method_claims(ours: _Ours) -> Iterator[_Claim]:
    for _, row in adaptivity(ours.main).table.iterrows():
        method = str(row["method"])
        mine = ours.margins[ours.margins["method"] == method]
        for quantity in ("complete", "margin", "damage"):
            yield _Claim(
                f"{quantity} (table 2)",
                f"{policy_name(method)}, {ours.where}",
                *(row[quantity], row[f"{quantity}_se"], getattr(paper.METHODS[method], quantity)),
                blocked=_other_datasets(mine) or ours.half_a_family(method) or ours.other_budgets(),
            )


def _correlation_claims(ours: _Ours) -> Iterator[_Claim]:
    blocked = _other_datasets(ours.margins) or ours.other_methods()
    names, theirs = ("Pearson r", "Spearman rho"), (paper.PEARSON, paper.SPEARMAN)
    found = zip(names, correlations(ours.margins), _jackknife(ours.main), theirs, strict=True)
    for name, value, error, published in found:
        what = f"{name} of margin and damage (table 2)"
        yield _Claim(what, ours.where, value, error, published, rounding=0.005, blocked=blocked)


def _method_order(ours: _Ours) -> Iterator[_Claim]:
    damage = ours.cells.groupby("method")["damage"].mean()
    names = [policy_name(str(method)) for method in damage.index]
    theirs = [paper.METHODS[str(method)].damage for method in damage.index]
    blocked = _other_datasets(ours.cells) or ours.other_methods()
    claim = _Claim("order of methods by damage (figure 5)", ours.where, blocked=blocked)
    yield from _compare_orders(claim, names, list(damage), theirs)


def _cube_nm_claims(ours: _Ours) -> Iterator[_Claim]:
    here = ours.cells[ours.cells["dataset"] == "cube_nm"]
    for method, theirs in paper.CUBE_NM_COMPLETE.items():
        for _, row in here[here["method"] == method].iterrows():
            yield _Claim(
                "complete-data accuracy (section 5.4)",
                f"CUBE-NM, {policy_name(method)}",
                *(row["complete"], row["complete_se"], theirs),
                rounding=0.005,
                note=_about_splits(int(row["splits"])),
                blocked=ours.half_a_family(method) or ours.other_budgets(),
            )


def _method_statements(ours: _Ours) -> Iterator[_Claim]:
    """Check what section 5.2 says of the methods, which is about means over the datasets."""
    methods = _by_damage(ours.cells, "method")
    blocked = _other_datasets(ours.cells) or ours.other_methods()
    note = "ours by damage: " + ", ".join(policy_name(name) for name in methods)
    said = partial(_Claim, where=ours.where, note=note, blocked=blocked)
    if len(methods) > 1 and "dime" in methods:
        yield said("DIME is the least damaged method", holds=methods[-1] == "dime")
    if len(methods) > 3:
        planning = all(kind_of(name) != "myopic" for name in methods[:3])
        yield said("the three most damaged methods are non-myopic", holds=planning)


def _dataset_statements(ours: _Ours) -> Iterator[_Claim]:
    """Check what sections 5.2 and 5.4 say of single datasets, which needs only these."""
    datasets = _by_damage(ours.cells, "dataset")
    note = "ours by damage: " + ", ".join(dataset_name(name) for name in datasets)
    said = partial(_Claim, where=ours.where, note=note, blocked=ours.other_methods())
    if len(datasets) > 1 and "cube_nm" in datasets:
        yield said("CUBE-NM is the most damaged dataset", holds=datasets[0] == "cube_nm")
    least = {"miniboone", "nhanes_mortality"}
    if len(datasets) > 2 and least <= set(datasets):
        what = "MiniBooNE and NHANES are the two least damaged datasets"
        yield said(what, holds=set(datasets[-2:]) == least)
    jafa = ours.cells[ours.cells["method"] == "jafa"]
    hurt = jafa[jafa["dataset"].isin(["cube_nuc", "heart_disease"])]["damage"]
    if len(hurt) == 2:
        yield _Claim(
            "JAFA is damaged on CUBE-NUC and Heart Disease",
            ours.where,
            note="ours: " + ", ".join(f"{value:+.3f}" for value in hurt),
            blocked=ours.half_a_family("jafa"),
            holds=bool(is_damaged(hurt.to_numpy(float)).all()),
        )


def _restoration_statement(ours: _Ours) -> Iterator[_Claim]:
    gains = ours.cells.loc[ours.cells["damage"] > 0, "gain"].dropna()
    if len(gains) > 1:
        better, worse = int((gains > 0).sum()), int((gains < 0).sum())
        yield _Claim(
            "restoration recovers part of the damage in many cells and does harm in some",
            ours.where,
            note=f"of {len(gains)} damaged cells, {better} gain and {worse} lose",
            holds=better >= len(gains) / 3 and worse > 0,
        )


def _compute_claims(ours: _Ours) -> Iterator[_Claim]:
    pairs = compute_comparison(ours.results).pairs
    pairs = pairs[pairs["restorer"] == PAPER_SETTING.restorer]
    if pairs.empty:
        return
    found = Compute.of(pairs)
    blocked = "times depend on hardware and on how many policies are trained at once"
    for what, value, theirs in (
        ("median restored / restricted time", found.median_ratio, paper.MEDIAN_RATIO),
        ("share of pairs within 1.25x", found.within_1_25, paper.WITHIN_1_25),
        ("share of pairs within 1.5x", found.within_1_5, paper.WITHIN_1_5),
        ("median seconds of restoring per policy", found.median_amortised, paper.MEDIAN_AMORTISED),
    ):
        yield _Claim(f"{what} (appendix B.3)", f"{len(pairs)} pairs", value, paper=theirs, blocked=blocked)


def _compare_orders(
    claim: _Claim, names: list[str], ours: list[float], theirs: list[float]
) -> Iterator[_Claim]:
    """Compare two orders by Kendall's tau: they agree if it is 1, or too large for chance (5%, one-sided)."""
    if len(names) < 3 or not np.isfinite(ours).all():
        return
    tau = stats.kendalltau(ours, theirs, alternative="greater")
    rho = stats.spearmanr(ours, theirs).statistic
    mine, papers = (", ".join(names[i] for i in np.argsort(values)[::-1]) for values in (ours, theirs))
    note = f"ours is Kendall's tau, Spearman's rho is {rho:.2f}; ours: {mine}; the paper's: {papers}"
    holds = bool(tau.statistic > 1 - 1e-9 or tau.pvalue < 0.05)
    yield claim._replace(ours=float(tau.statistic), note=note, holds=holds)


def _by_damage(cells: pd.DataFrame, by: str) -> list[str]:
    """Order by mean damage, largest first."""
    return [str(name) for name in cells.groupby(by)["damage"].mean().sort_values(ascending=False).index]


def _about_splits(splits: int) -> str:
    return "" if splits == 5 else f"{splits} split{'s' if splits > 1 else ''}, the paper's five"


def _other_datasets(cells: pd.DataFrame) -> str:
    """Why a mean over these cells' datasets is not the paper's; '' if every method has all eight."""
    each = [set(part["dataset"]) for _, part in cells.groupby("method")]
    if all(found == set(paper.ROUTES) for found in each):
        return ""
    names = ", ".join(dataset_name(name) for name in in_order("dataset", set.intersection(*each)))
    return f"the paper's mean is over eight datasets, ours over {names or 'different ones by method'}"


def _jackknife(results: Results) -> tuple[float, float]:
    """Standard errors of the two correlations, leaving out one split at a time."""
    scores, routes = paired_scores(results, "family"), at_largest_budget(results.routes)
    splits = sorted(scores["split"].unique())
    if len(splits) < 2:
        return math.nan, math.nan
    left = []
    for split in splits:
        kept = scores[scores["split"] != split].groupby(["dataset", "method"])[["complete", "restricted"]]
        static = routes[routes["split"] != split].groupby("dataset")["v_static"].mean()
        cells = kept.mean().reset_index().merge(static.reset_index(), on="dataset").dropna()
        margin, damage = cells["complete"] - cells["v_static"], cells["complete"] - cells["restricted"]
        left.append(correlations(cells.assign(margin=margin, damage=damage)))
    n = len(splits)
    pearson, spearman = np.sqrt((n - 1) / n * ((np.array(left) - np.mean(left, axis=0)) ** 2).sum(axis=0))
    return float(pearson), float(spearman)
