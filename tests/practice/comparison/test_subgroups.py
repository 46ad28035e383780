"""Every subgroup is scored by the best estimate that its own rows allow."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from ascertain.practice.comparison._report import subgroup_table
from ascertain.practice.comparison._scoring import Scores
from ascertain.practice.comparison._subgroups import NOT_RECORDED, Subgroups, score_subgroups
from ascertain.practice.comparison._summary import subgroup_cells, subgroups_estimate
from ascertain.problem import Table
from tests.fitted import BUDGET, fitted

SIZES = {"rail": 120, "road": 80, NOT_RECORDED: 40}
METRICS = ("auroc", "accuracy", "mean_cost", "mean_acquisitions")


def scores(rows: int) -> pd.DataFrame:
    """Scores of which rows without a record have none that is estimated."""
    facts = {"budget": BUDGET, "effective_rows": 40.0, "rarest_effective_rows": 35.0, "rarest_class": "yes"}
    values = {"restricted": 0.7, "dr": np.nan if rows == SIZES[NOT_RECORDED] else 0.9}
    return pd.DataFrame(
        facts
        | {"estimator": name, "metric": metric, "estimate": value, "low": value - 0.01, "high": value + 0.01}
        | {"warning": "", "reason": ""}
        for name, value in values.items()
        for metric in METRICS
    )


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Subgroups:
    def score(advisor: object, table: Table, *given: object, **named: object) -> Scores:
        return Scores(scores(len(table.y)), {})

    monkeypatch.setattr("ascertain.practice.comparison._subgroups.score", score)
    data, board, _ = fitted()
    names = [None if name == NOT_RECORDED else name for name, size in SIZES.items() for _ in range(size)]
    column = pd.Series(names, name="machine")
    rows = data.test.take(jnp.arange(len(names)) % len(data.test.y))
    return score_subgroups(board.best.advisor, rows, column, board.best.advisor.restorer)


def test_one_without_an_estimate_leaves_that_of_the_others(found: Subgroups) -> None:
    estimators = {group.name: (group.estimator, group.auroc.estimate) for group in found.groups}
    assert estimators == {"rail": ("dr", 0.9), "road": ("dr", 0.9), NOT_RECORDED: ("restricted", 0.7)}
    assert subgroups_estimate(found) == "doubly robust estimate; rows as they are where that is said"


def test_it_says_so_itself(found: Subgroups) -> None:
    cells = {group.name: subgroup_cells(group)[1] for group in found.groups}
    assert cells == {"rail": "120", "road": "80", NOT_RECORDED: "40, as they are"}
    remarks = [group.warning for group in found.groups]
    assert remarks[:2] == ["", ""]
    assert "too few of its rows have what the policy asks for: scored as they are" in remarks[2]
    table = subgroup_table(found)
    assert table is not None
    assert [row[-1].text for row in table.rows] == remarks
