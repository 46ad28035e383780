"""What the classifier answers, as tables: recommendations, explanations, simulated acquisitions."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from ascertain._core.checks import LARGEST_BUDGET, check_numbers
from ascertain.errors import InputError
from ascertain.estimator._advisor import Advice, Advisor
from ascertain.estimator._case_prices import forbidden_actions
from ascertain.estimator._outcomes import expected_outcomes, outcomes_text
from ascertain.estimator._sets import best_sets
from ascertain.evaluation._rollouts import budget_episodes
from ascertain.predictors._predictions import predictions
from ascertain.problem import Table

_WITH_SETS = ("why", "prediction", "probability", "low", "high")  # of a recommendation
_EXPLAINED = ("row", "action", "column", "result", "above", "up_to", "share", "prediction", "then")


class Question(NamedTuple):
    """Rows to advise on, and what holds for them."""

    advisor: Advisor  # at the prices of these rows
    x: Float[np.ndarray, "rows features"]
    available: Bool[np.ndarray, "rows features"]
    spent: Float[np.ndarray, " rows"] | None
    forbidden: Bool[np.ndarray, "rows actions"]
    budgets: Float[np.ndarray, " rows"] | None

    @classmethod
    def about(
        cls, advisor: Advisor, x: np.ndarray, available: np.ndarray, spent: Any, forbid: Any, budget: Any
    ) -> "Question":
        """Check what a user gave: `spent` and `budget` are a number, or one for each row."""
        closed = forbidden_actions(advisor.encoding, forbid)
        return cls(
            advisor,
            x,
            available,
            _amounts("spent", spent, len(x)),
            np.broadcast_to(closed, (len(x), len(closed))),
            _amounts("budget", budget, len(x)),
        )

    @property
    def largest_budget(self) -> float:
        """The largest budget that was given; 0 if none was."""
        return 0.0 if self.budgets is None else float(self.budgets.max(initial=0.0))

    @property
    def action_names(self) -> np.ndarray:
        """The names of the actions, and None at the end: no action."""
        return np.array((*self.advisor.encoding.action_names, None), object)

    def advise(self) -> Advice:
        """Advice for every row."""
        return self.advisor.advise(self.x, self.available, self.spent, self.forbidden, self.budgets)


def recommendations(asked: Question) -> pd.DataFrame:
    """What to measure next in each row, and what to predict meanwhile."""
    return _table(asked, asked.advise())


def recommended_sets(asked: Question, batch: int) -> pd.DataFrame:
    """The best set of actions to order at once in each row, and what to predict meanwhile."""
    advice = asked.advise()
    closed = asked.forbidden | (advice.choice == 0)[:, None]
    rows = asked.advisor, asked.x, asked.available, asked.spent, closed
    sets = best_sets(*rows, batch, asked.budgets, advice.choice - 1)
    names, table = asked.action_names, _table(asked, advice)
    in_vain = (advice.choice > 0) & (sets.actions < 0).all(axis=1)
    table.loc[in_vain, "why"] = "no set helps"
    actions = [tuple(names[action] for action in chosen if action >= 0) for chosen in sets.actions]
    columns = {
        "actions": pd.Series(actions, dtype="object"),
        "cost": sets.cost.astype(np.float64),
        "right_after": sets.right.astype(np.float64),
    }
    return pd.DataFrame(columns | {name: table[name] for name in _WITH_SETS})


def explanations(asked: Question, index: "pd.Index[Any]") -> pd.DataFrame:
    """The outcomes of each row's recommended action, and what they would change."""
    advice, names, records = asked.advise(), asked.action_names, []
    for place, outcomes in enumerate(expected_outcomes(asked.advisor, advice)):
        for each in outcomes:
            told = {"row": index[place], "action": names[advice.choice[place] - 1]}
            chances = {f"probability of {name}": value for name, value in each.probabilities.items()}
            records.append(told | {k: v for k, v in vars(each).items() if k != "probabilities"} | chances)
    columns = [*_EXPLAINED, *(f"probability of {name}" for name in asked.advisor.classes)]
    return pd.DataFrame(records, columns=columns).astype(dict.fromkeys(("above", "up_to"), np.float64))


def simulated_steps(
    advisor: Advisor, x: np.ndarray, available: np.ndarray, budget: float, index: "pd.Index[Any]"
) -> pd.DataFrame:
    """Every step of the policy in rows whose values are known."""
    return pd.DataFrame(_steps(advisor, x, available, budget, index))


def _table(asked: Question, advice: Advice) -> pd.DataFrame:
    advisor, names = asked.advisor, asked.action_names
    acquired = advisor.acquired(asked.available)
    stops, rows = advice.choice == 0, np.arange(len(asked.x))
    action = np.maximum(advice.choice - 1, 0)
    left = ~(acquired | asked.forbidden).all(axis=1)
    why = np.where(advice.legal.any(axis=1), "policy", np.where(left, "budget", "nothing left"))
    prices = advisor.problem.price_list.prices(acquired)
    predicted = advisor.decide(advice.probabilities)
    outcomes = expected_outcomes(advisor, advice)
    shown = zip(outcomes, names[action], map(str, advisor.classes[predicted]), strict=True)
    texts = [outcomes_text(*each) for each in shown]
    return pd.DataFrame(
        {
            "action": _unless(stops, names[action]),
            "cost": np.where(stops, 0.0, prices[rows, action]),
            "score": np.where(stops, np.nan, advice.scores[rows, action]),
            "why": _unless(~stops, why),
            "prediction": advisor.classes[predicted],
            "probability": advice.probabilities[rows, predicted].astype(np.float64),
            "low": advice.low[rows, predicted].astype(np.float64),
            "high": advice.high[rows, predicted].astype(np.float64),
            "right_at_end": np.where(stops, np.nan, advice.right_at_end[rows, action].astype(np.float64)),
            "then": pd.Series(names[advice.then], dtype="object"),
            "if_result": _unless(stops, np.array(texts, object)),
        }
    )


def _unless(condition: np.ndarray, values: np.ndarray) -> Any:
    """The values, with None where the condition holds; as objects, since pandas would make it NaN."""
    found = values.astype(object)
    found[condition] = None
    return pd.Series(found, dtype="object")


def _amounts(what: str, given: Any, n_rows: int) -> np.ndarray | None:
    """An amount for each row, from a number for all or a number for each."""
    if given is None:
        return None
    amounts = check_numbers(what, given, ndim=np.ndim(given))
    if amounts.shape not in ((), (n_rows,)):
        raise InputError(f"{what} must be a number, or {n_rows} of them, one for each row")
    if not ((amounts >= 0) & (amounts <= LARGEST_BUDGET)).all():
        raise InputError(f"{what} must not be negative, infinite or NaN")
    return np.broadcast_to(amounts, (n_rows,))


def _steps(
    advisor: Advisor, x: np.ndarray, available: np.ndarray, budget: float, index: "pd.Index[Any]"
) -> Iterator[dict[str, Any]]:
    """Roll out the policy on each row; one record per step."""
    classes = advisor.classes
    rows = Table(x, np.zeros(len(x), int), available, n_classes=len(classes))
    episodes = budget_episodes(advisor.policy, advisor.problem, rows, budget, protocol=advisor.protocol)
    probabilities = np.asarray(predictions(advisor.predictor, advisor.problem, rows, episodes))
    decided = advisor.decide(probabilities)
    choices, spent = np.asarray(episodes.choices), np.asarray(episodes.spent, np.float64)
    names, prices = advisor.encoding.action_names, advisor.problem.price_list
    for row, label in enumerate(index):
        acquired = np.zeros(len(names), bool)
        for step in range(1 + int((choices[row] > 0).sum())):
            action = choices[row, step - 1] - 1
            cost = float(prices.prices(acquired)[action]) if step else 0.0
            acquired[action] |= step > 0
            predicted = decided[step, row]
            yield {
                "row": label,
                "step": step,
                "action": names[action] if step else None,
                "cost": cost,
                "spent": spent[row, step - 1] if step else 0.0,
                "prediction": classes[predicted],
                "probability": float(probabilities[step, row, predicted]),
            }
