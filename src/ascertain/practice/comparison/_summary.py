"""The result of a comparison in sentences, for the page and for the terminal."""

from collections.abc import Iterable

import numpy as np

from ascertain.evaluation._incomplete import LEAST_EFFECTIVE_ROWS
from ascertain.practice.comparison._held_out import HeldOut
from ascertain.practice.comparison._leaderboard import FLOOR, FittedCandidate, Leaderboard
from ascertain.practice.comparison._scoring import ESTIMATORS, METRIC, Difference, Estimator, Score
from ascertain.practice.comparison._subgroups import LEAST_ROWS, Subgroup, Subgroups
from ascertain.reporting._tables import NOTHING
from ascertain.reporting._text import counted, joined

_WIDE = 0.1  # an interval of AUROC that does not support a third digit
ESTIMATES: dict[Estimator, str] = {
    "dr": "doubly robust estimate",
    "ipw": "estimate by inverse probability weights",
    "restricted": "rows as they are",
}
USE = (
    "It is for advice on what to measure next, at the prices and the budget given here, for instances like "
    "those in the table. A person decides.",
    "It predicts; it does not explain causes. That a measurement comes first does not mean that changing it "
    "would help.",
    "It is not tested on data from another place or a later time. Before it is used, test it there "
    "(ascertain evaluate).",
    "The estimates hold if whether a row has a measurement depends on what was known when it was ordered. If "
    "it depends on the value itself or on the outcome, they are biased and the intervals do not show it: "
    "ascertain diagnose shows what speaks for that.",
    "Delays, risks and discomfort count only as far as the prices say so.",
)
_WORTHS = {
    METRIC: "AUROC",
    "decision_cost": "mean cost of decisions",
    "total_cost": "mean cost of decisions and measurements",
}
_AS_THEY_ARE = (
    "There a policy must choose among what a row happens to have. Such a score may be too low or too high "
    "for a policy that can buy everything."
)
_QUICK = (
    "This was a quick look (low effort): the planner and a fixed panel only, unless you named a method, with "
    "shorter training. Fit with --effort standard before you rely on it."
)


def score_text(score: Score) -> str:
    """Write an estimate with its interval, in no more digits than it supports."""
    if score.exists:
        digits = 2 if score.high - score.low >= _WIDE else 3
        return f"{score.estimate:.{digits}f} ({score.low:.{digits}f} to {score.high:.{digits}f})"
    rows = score.effective_rows
    if score.reason and rows >= LEAST_EFFECTIVE_ROWS:
        return "a class lacks what it asks for"
    return f"too few rows ({rows:.0f})" if rows == rows else "too few rows"


def support_text(score: Score) -> str:
    """Write how many effective rows an estimate rests on, and how many of the rarest class."""
    few = ", few!" if score.warning else ""
    return f"{score.effective_rows:,.0f} ({score.rarest_effective_rows:,.0f} of {score.rarest_class}{few})"


def interval_text(score: Score) -> str:
    """Write the mean of an amount with its interval."""
    if not score.exists:
        return "-"
    return f"{amount_text(score.estimate)} ({amount_text(score.low)} to {amount_text(score.high)})"


def subgroup_cells(group: Subgroup) -> tuple[str, ...]:
    """A subgroup's name, rows, rows of the rarest class, AUROC, cost and number of acquisitions."""
    auroc = score_text(group.auroc) if group.auroc.exists else "one class only"
    rows = f"{group.rows:,}"
    return (
        group.name,
        f"{rows}, few!" if group.rows < LEAST_ROWS else marked(rows, group.estimator),
        f"{group.rarest_rows:,} ({group.rarest_class})",
        auroc,
        interval_text(group.cost),
        interval_text(group.acquisitions),
    )


def amount_text(value: float) -> str:
    """Write an amount with up to three digits, more only where it is larger.

    Examples
    --------
    >>> amount_text(117.34), amount_text(4.9993), amount_text(12345.6), amount_text(0.0123)
    ('117', '5', '12,346', '0.012')
    """
    if value < 0.1:
        return f"{value:.2g}"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def cost_text(score: Score) -> str:
    """Write a mean cost with its interval."""
    if not score.exists:
        return "too few rows"
    return f"{amount_text(score.estimate)} ({amount_text(score.low)} to {amount_text(score.high)})"


def marked(text: str, estimator: Estimator) -> str:
    """Add to a number that it is about rows as they are, if it is.

    Examples
    --------
    >>> marked("9.08", "restricted"), marked("12", "dr")
    ('9.08, as they are', '12')
    """
    return f"{text}, as they are" if estimator == "restricted" else text


def estimates_text(estimators: Iterable[Estimator]) -> str:
    """Write how numbers of one table were estimated, where those of rows as they are say so.

    Examples
    --------
    >>> estimates_text(["dr", "restricted", "dr"])
    'doubly robust estimate; rows as they are where that is said'
    """
    best, *others = sorted(set(estimators), key=ESTIMATORS.index)
    said = "; rows as they are where that is said" if "restricted" in others else ""
    return f"{ESTIMATES[best]}{said}"


def costs_estimate(board: Leaderboard) -> str:
    """Write how the costs of all candidates were estimated."""
    return estimates_text(map(board.estimator_of, board.candidates))


def subgroups_estimate(found: Subgroups) -> str:
    """Write how the subgroups of a column were scored."""
    return estimates_text(group.estimator for group in found.groups)


def mean_cost_text(board: Leaderboard, fitted: FittedCandidate) -> str:
    """Write what a candidate spends on average at the full budget, by the best estimate that it has."""
    estimator = board.estimator_of(fitted)
    return marked(amount_text(fitted.score(board.budgets[-1], estimator, "mean_cost").estimate), estimator)


def decision_cost_text(board: Leaderboard, fitted: FittedCandidate) -> str:
    """Write what a candidate's decisions cost at the full budget, by the best estimate that it has."""
    estimator = board.estimator_of(fitted)
    return marked(cost_text(fitted.score(board.budgets[-1], estimator, "decision_cost")), estimator)


def difference_text(found: Difference) -> str:
    """Write a difference with its interval: of AUROCs in three digits, or of costs."""
    ends = found.estimate, found.low, found.high
    if found.metric == METRIC:
        middle, low, high = (f"{each:.3f}".replace("-0.000", "0.000") for each in ends)
    else:
        middle, low, high = (f"{'-' if each < 0 else ''}{amount_text(abs(each))}" for each in ends)
    return f"{middle} ({low} to {high})"


def bound_text(fitted: FittedCandidate, estimator: str) -> str:
    """Write the end of the interval that candidates are sorted by."""
    if not fitted.validation_score(estimator).exists:
        return NOTHING
    bound = fitted.bound(estimator)
    return f"{bound:.3f}" if fitted.ranking_metric == METRIC else amount_text(bound)


def choice_sentences(data: HeldOut, board: Leaderboard) -> list[str]:
    """What was chosen, how, what it reaches, and whether it is better than one panel for all."""
    sentences = [
        *_choice(data, board),
        _result(board),
        *_decisions(data, board),
        *_few_rows(board),
        *_against_panel(board),
        *_against_random(board),
        *_treatment(board),
    ]
    if board.effort == "low":
        sentences.append(_QUICK)
    sentences += _rows_as_they_are(board)
    return [sentence[0].upper() + sentence[1:] for sentence in sentences]


def _choice(data: HeldOut, board: Leaderboard) -> list[str]:
    if len(_learned(board)) == 1:
        return []
    best, rows = board.best, counted(len(data.selection.y), "validation row")
    if board.ranked_by is None:
        return [f"The {rows} do not allow any comparison, so {best.name}, the first, was taken."]
    validated = best.validation_score(board.ranked_by)
    tested = counted(int(best.test_scores["n_rows"].max()), "test row")
    budget, estimate = f"at a budget of {data.budget:g}", ESTIMATES[board.ranked_by]
    reason = (
        f"its AUROC {budget} is at least {validated.low:.3f} there (lower end of the 95% interval, "
        f"{estimate}), the highest of all that learn. "
    )
    if board.knows_decision_costs:
        what = "its decisions, with all that is spent," if board.stop_early else "its decisions"
        reason = (
            f"{what} {budget} cost at most {amount_text(validated.high)} on average there (upper end "
            f"of the 95% interval, {estimate}), the least of all that learn. "
        )
    chosen = (
        f"{best.name} was chosen on {rows}: {reason}"
        f"All scores reported here are from other rows: {tested} that were used neither for training nor for "
        "choosing."
    )
    unscored = _without_estimate(board)
    if not unscored:
        return [chosen]
    return [
        chosen,
        f"{joined(unscored)} could not be chosen: in fewer than {LEAST_EFFECTIVE_ROWS} rows (of equal "
        "weight), or in hardly any of one class, was everything measured that such a policy asks for, so its "
        "score cannot be estimated.",
    ]


def _learned(board: Leaderboard) -> list[FittedCandidate]:
    return [each for each in board.candidates if each.candidate != FLOOR]


def _rows_as_they_are(board: Leaderboard) -> list[str]:
    """What is about rows as they are, because of too few rows with what a policy asks for."""
    about = [each.name for each in _learned(board) if board.estimator_of(each) == "restricted"]
    found = []
    if board.ranked_by == "restricted":
        found.append("too few validation rows have what the policies ask for, so these were used as they are")
    if about:
        found.append(
            f"too few test rows have what is asked for by {joined(about)}, so what is said of it is about "
            "rows as they are"
        )
    return [f"{'; '.join(found)}. {_AS_THEY_ARE}"] if found else []


def _treatment(board: Leaderboard) -> list[str]:
    """How the treatment of the holes was chosen for the best candidate, if it was."""
    auto = board.best.advisor.auto
    return [] if auto is None else [f"Treatment of the holes: {auto.sentence}"]


def _without_estimate(board: Leaderboard) -> list[str]:
    """Names of the candidates without the estimate by which the others are ranked."""
    if board.ranked_by is None:
        return []
    return [each.name for each in _learned(board) if not each.validation_score(board.ranked_by).exists]


def _result(board: Leaderboard) -> str:
    best, budget, estimator = board.best, board.budgets[-1], board.best_candidates_estimator
    found = best.score(budget, estimator)
    meaning = "on rows as they are"
    if estimator != "restricted":
        meaning = f"an estimate of what it would reach if everything could be bought ({ESTIMATES[estimator]})"
    return (
        f"On test rows its AUROC is {score_text(found)}, for "
        f"{amount_text(best.score(budget, estimator, 'mean_cost').estimate)} spent on average: {meaning}. It "
        f"was followed in all {counted(int(best.test_scores['n_rows'].max()), 'test row')}; the number rests "
        f"on {found.effective_rows:,.0f} effective rows, {found.rarest_effective_rows:,.0f} of them of class "
        f"{found.rarest_class!r}. Buying nothing gives {score_text(best.score(0.0, 'restricted'))}."
    )


def _decisions(data: HeldOut, board: Leaderboard) -> list[str]:
    """What the decisions of the best candidate cost, beside the same decision for everybody."""
    if not board.knows_decision_costs:
        return []
    estimator, budget = board.best_candidates_estimator, board.budgets[-1]
    decisions, total = (
        cost_text(board.best.score(budget, estimator, metric)) for metric in ("decision_cost", "total_cost")
    )
    costs = np.asarray(data.problem.decision_costs, np.float64)
    mean = np.average(costs[np.asarray(data.test.y)], axis=0, weights=data.weights_of(data.tested))
    stops = board.best.score(budget, estimator, "mean_acquisitions").estimate == 0
    at_once = "It measures nothing, since nothing is expected to save what it costs. " if stops else ""
    return [
        f"{at_once if board.stop_early else ''}"
        f"Its decisions cost {decisions} on average on test rows ({ESTIMATES[estimator]}), and {total} "
        f"together with what is spent. To measure nothing and decide {data.table.classes[mean.argmin()]!r} "
        f"for everybody, the cheapest such rule, costs {amount_text(float(mean.min()))}."
    ]


def _few_rows(board: Leaderboard) -> list[str]:
    """A warning where the best candidate's scores rest on few rows of a class."""
    scores = {
        "validation": board.best.validation_score(board.ranked_by or "restricted"),
        "test": board.best.score(board.budgets[-1], board.best_candidates_estimator),
    }
    few = {rows: score for rows, score in scores.items() if score.exists and score.warning}
    if not few:
        return []
    numbers = joined(
        [
            f"on {rows} rows {score.rarest_effective_rows:.0f} of class {score.rarest_class!r}"
            for rows, score in few.items()
        ]
    )
    return [
        f"Be careful: these scores rest on fewer than {LEAST_EFFECTIVE_ROWS} effective rows of a class "
        f"({numbers}). Other rows may give other numbers, and another policy may be the best."
    ]


def _against_random(board: Leaderboard) -> list[str]:
    """How the best compares with a random order, if that is no worse."""
    floor = next((each for each in board.candidates if each.candidate == FLOOR), None)
    if floor is None or floor is board.best:
        return []
    metric, estimator = board.best.ranking_metric, board.estimator_of(board.best, floor)
    ours, theirs = (each.score(board.budgets[-1], estimator, metric) for each in (board.best, floor))
    ahead = ours.estimate > theirs.estimate if metric == METRIC else ours.estimate < theirs.estimate
    if not (ours.exists and theirs.exists) or ahead:
        return []
    shown = score_text if metric == METRIC else cost_text
    return [
        f"A random order does no worse: {shown(theirs)} against {shown(ours)} "
        f"({_WORTHS[metric]}, {ESTIMATES[estimator]}). What is measured hardly matters here, or cannot be "
        "learned from these rows."
    ]


def _against_panel(board: Leaderboard) -> list[str]:
    """How the best compares with the same panel for everybody, where scores allow a comparison."""
    if board.panel is None or len(_learned(board)) == 1:
        return []
    enough = ""
    if board.best is board.panel:
        if board.ranked_by is None or _without_estimate(board):
            return []
        enough = (
            "None of the policies that adapt to a case did better on the validation rows: as far as these "
            "rows show, the same panel for everybody is enough here. "
        )
    compared = next(each for each in _learned(board) if each is not board.panel)
    found = board.to_panel(compared)
    if found is None:
        return [enough.strip()] if enough else []
    name = f"{compared.name[0].upper()}{compared.name[1:]}"
    if found.low == found.high:
        return [f"{enough}{name} does the same as the same panel for everybody on these test rows."]
    ahead = found.estimate >= 0
    shown = found if ahead else found.reversed
    verdict = "these test rows do not tell which of the two is better"
    if found.sure:
        verdict = "these test rows tell that it is " + ("better" if ahead else "worse")
    how = f"{_WORTHS[found.metric]}, {ESTIMATES[found.estimator]}, 95% interval paired by rows"
    return [
        f"{enough}{name} is {'better' if ahead else 'worse'} than the same panel for everybody by "
        f"{difference_text(shown)} on test rows ({how}): {verdict}."
    ]
