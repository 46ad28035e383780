"""A leaderboard in words, for the page and for the terminal."""

from ascertain.evaluation.incomplete import LEAST_EFFECTIVE_ROWS
from ascertain.practice.held_out import HeldOut
from ascertain.practice.leaderboard import Estimator, Leaderboard, Score
from ascertain.reporting.text import counted, joined

ESTIMATES: dict[Estimator, str] = {
    "dr": "doubly robust estimate",
    "ipw": "estimate by inverse probability weights",
    "restricted": "rows as they are",
}
_RESTRICTED = (
    "Too few rows have what the policies choose, so some of this is about rows as they are, where a policy "
    "must choose among what a row happens to have. Such a score may be too low or too high for a policy that "
    "can buy everything."
)


def score_text(score: Score) -> str:
    """Write an estimate with its interval."""
    if not score.exists:
        few = score.effective_rows
        return f"too few rows ({few:.0f})" if few == few else "too few rows"
    return f"{score.estimate:.3f} ({score.low:.3f} to {score.high:.3f})"


def choice_sentences(data: HeldOut, board: Leaderboard) -> list[str]:
    """Say what was chosen, how, what it reaches, and whether it is better than simpler things."""
    best, n_chosen = board.best, len(data.selection.y)
    said = []
    if len(board.contenders) > 1 and board.estimator is not None:
        low, tested = best.choice(board.estimator).low, int(best.scores["n_rows"].max())
        said.append(
            f"{best.candidate.name} was chosen on {counted(n_chosen, 'validation row')}: its AUROC at a "
            f"budget of {data.budget:g} is at least {low:.3f} there (lower end of the 95% interval, "
            f"{ESTIMATES[board.estimator]}), the highest of all. All scores told are from other rows: "
            f"{counted(tested, 'test row')} that no model and no choice has seen."
        )
        said.extend(_not_followed(board, board.estimator))
    elif len(board.contenders) > 1:
        said.append(
            f"The {counted(n_chosen, 'validation row')} do not allow any comparison, so "
            f"{best.candidate.name}, the first, was taken."
        )
    said.append(_reached(board))
    said.extend(_against_panel(board))
    if "restricted" in (board.estimator, board.reported, board.told):
        said.append(_RESTRICTED)
    return [sentence[0].upper() + sentence[1:] for sentence in said]


def _not_followed(board: Leaderboard, estimator: Estimator) -> list[str]:
    names = [each.candidate.name for each in board.contenders if not each.choice(estimator).exists]
    if not names:
        return []
    return [
        f"{joined(names)} could not be chosen: in fewer than {LEAST_EFFECTIVE_ROWS} rows (of equal weight) "
        "was everything measured that such a policy asks for, so nobody can tell how it would do."
    ]


def _reached(board: Leaderboard) -> str:
    best, budget, estimator = board.best, board.budgets[-1], board.told
    nothing = best.score(0.0, "restricted")
    cost = best.score(budget, estimator, "mean_cost")
    means = "on rows as they are"
    if estimator != "restricted":
        means = f"an estimate of what it would reach if everything could be bought ({ESTIMATES[estimator]})"
    return (
        f"On test rows its AUROC is {score_text(best.score(budget, estimator))}, for {cost.estimate:.3g} "
        f"spent on average: {means}. Buying nothing gives {score_text(nothing)}."
    )


def _against_panel(board: Leaderboard) -> list[str]:
    best, budget = board.best, board.budgets[-1]
    panels = [each for each in board.contenders if each.candidate.method == "static"]
    if not panels or len(board.contenders) == 1:
        return []
    if best in panels:
        return _enough(board)
    estimator = board.reported
    ours, theirs = best.score(budget, estimator), panels[0].score(budget, estimator)
    if not (ours.exists and theirs.exists):
        return []
    apart = ours.low > theirs.high or theirs.low > ours.high
    verdict = (
        "the intervals do not overlap"
        if apart
        else "the intervals overlap, so these test rows do not show that a policy is better than one panel "
        "for all"
    )
    return [
        f"The same panel for everybody reaches {score_text(theirs)} against {score_text(ours)} "
        f"({ESTIMATES[estimator]}): {verdict}."
    ]


def _enough(board: Leaderboard) -> list[str]:
    """Say that one panel for all is enough, if the others could be checked."""
    if board.estimator is None or _not_followed(board, board.estimator):
        return []
    return [
        "None of the policies that adapt to a case did better on the validation rows: as far as these rows "
        "tell, the same panel for everybody is enough here."
    ]
