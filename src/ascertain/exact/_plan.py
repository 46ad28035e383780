"""Plans: what to acquire in every state of a finite problem."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from ascertain.exact._finite import FiniteProblem

TIE_MARGIN = 1e-12


@dataclass(frozen=True, eq=False)
class Plan:
    """Action values of a planner, and the decisions that follow from them.

    The best action value decides. Where values differ by at most `TIE_MARGIN`, stopping is preferred to
    acquiring, and then the action with the lower number. Print a plan to see it as a decision tree.

    Examples
    --------
    >>> from ascertain.exact import shortcut
    >>> plan = shortcut(d=6, budget=2).optimal_plan()
    >>> plan.first_action, plan({"context": 1})
    ('context', 'branch1.1')
    """

    problem: "FiniteProblem"
    edge_values: Float[np.ndarray, " edges"]  # expected accuracy after each legal acquisition
    stop_values: Float[np.ndarray, " states"]  # expected accuracy of predicting at once

    @property
    def first_action(self) -> str | None:
        """The name of the feature to acquire first, or None to predict at once."""
        return self({})

    def __call__(self, known: Mapping[str, Any]) -> str | None:
        """Name the feature to acquire next, given the values known so far, or None to stop and predict."""
        edge = self.edge(self.problem.state(known))
        return None if edge is None else self._feature(edge)

    def action_values(self, known: Mapping[str, Any] | None = None) -> dict[str | None, float]:
        """Look up the expected accuracy of stopping (None) and of every legal acquisition."""
        state = self.problem.state(known or {})
        values: dict[str | None, float] = {None: float(self.stop_values[state])}
        for edge in self.problem.space.edges(state):
            values[self._feature(edge)] = float(self.edge_values[edge])
        return values

    def edge(self, state: int) -> int | None:
        """Find the edge of the state space that the plan takes from a state, or None to stop."""
        chosen, best = None, self.stop_values[state]
        for edge in self.problem.space.edges(state):
            if self.edge_values[edge] > best + TIE_MARGIN:
                chosen, best = edge, self.edge_values[edge]
        return chosen

    def __str__(self) -> str:
        return "\n".join(self._lines(0))

    def _feature(self, edge: int) -> str:
        return self.problem.feature_names[self.problem.space.edge_action[edge]]

    def _lines(self, state: int) -> Iterator[str]:
        """Draw the decision tree from a state on."""
        problem = self.problem
        edge = self.edge(state)
        if edge is None:
            yield f"predict {problem.label_names[problem.prediction[state]]}"
            return
        action = problem.space.edge_action[edge]
        yield f"acquire {problem.feature_names[action]} (cost {problem.costs[action]:g})"
        last = len(problem.value_names[action]) - 1
        for value, name in enumerate(problem.value_names[action]):
            branch, indent = ("└─ ", "   ") if value == last else ("├─ ", "│  ")
            first, *rest = self._lines(int(problem.space.children[edge, value]))
            yield f"{branch}{name}: {first}"
            yield from (indent + line for line in rest)
