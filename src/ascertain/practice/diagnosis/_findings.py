"""All findings about a user's table, as data."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from ascertain._core.arrays import on_device
from ascertain._core.threads import one_thread
from ascertain.estimator._weights import repeat_in_proportion
from ascertain.missingness import Diagnosis
from ascertain.practice.diagnosis._fixed_routes import FixedRoutes, find_routes
from ascertain.practice.diagnosis._holes import Holes, find_holes
from ascertain.practice.diagnosis._profile import TableProfile, profile
from ascertain.practice.diagnosis._restorers import RestorerFindings, find_restorers
from ascertain.practice.diagnosis._support import Support, find_support
from ascertain.tables._reading import UserTable, encode


@dataclass(frozen=True)
class Findings:
    """Everything that was found about a table."""

    table: TableProfile
    holes: Holes
    support: Support
    routes: FixedRoutes | str  # or why there are none
    restorers: RestorerFindings | str | None = None  # or why there are none; None where nobody asked

    def to_json(self) -> dict[str, Any]:
        """The findings as plain data; what could not be computed is None."""
        content = dataclasses.asdict(self)
        content["holes"]["against_mcar"] = self.holes.against_mcar
        for name in ("routes", "restorers"):
            if isinstance(content[name], str):
                content[name] = {"not_computed": content[name]}
        if isinstance(content["routes"].get("adaptivity"), str):
            content["routes"]["adaptivity"] = {"not_computed": content["routes"]["adaptivity"]}
        if self.restorers is None:
            del content["restorers"]
        return dict(_plain(content))


def diagnose_table(
    table: UserTable,
    *,
    costs: Mapping[str, float] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    known: Sequence[str] = (),
    default_cost: float | None = None,
    setup: Mapping[str, Any] | None = None,
    budget: float | None = None,
    restorers: Sequence[str] = (),
    on_stage: Callable[[str, int, int], object] = lambda stage, done, total: None,
) -> tuple[Findings, Diagnosis]:
    """Look at a table before learning from it; the second part is for drawing its holes.

    Parameters
    ----------
    table
        The table.
    costs, groups, known, default_cost, setup
        As for `ascertain.tables._reading.encode`: prices, panels, columns that are not acquired, the price of
        what is not listed, and set-ups that tests share.
    budget
        How much may be spent on an instance; None for any amount.
    restorers
        The restorers to fit and score; by default none, as that takes longer than all else.
    on_stage
        Called with its name, how many are done and how many there are when a restorer is fitted.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> columns = pd.DataFrame({"a": [1.0, 2, 3, np.nan] * 10, "b": [5.0, np.nan, 7, 9] * 10})
    >>> table = UserTable("mine.csv", columns, "sick", ("no", "yes"), np.arange(40) % 2, unlabelled=0)
    >>> findings, _ = diagnose_table(table, budget=1)
    >>> findings.support.complete, findings.holes.rate
    (20, 0.25)
    """
    encoding, aside = encode(
        table, costs=costs, groups=groups, known=known, default_cost=default_cost, setup=setup
    )
    usable = table.columns.drop(columns=list(aside))
    x, available = encoding.transform(usable)
    problem = encoding.problem(budget, table.classes)
    readable = np.asarray(problem.readable(on_device(available)))
    # The features of the columns only, and which cells were filled: known columns always count as available.
    owners = [column.name for column in encoding.columns for _ in column.features]
    values = x[:, : len(owners)].astype(np.float64)
    measured = available[:, : len(owners)] & usable[owners].notna().to_numpy()
    with one_thread():
        holes, drawing = find_holes(
            encoding, values, measured, readable, table.y, table.classes, table.weights
        )
        places, together = _in_proportion(table)
        findings = Findings(
            table=profile(table, encoding, aside, values, measured),
            holes=holes,
            support=find_support(
                readable, encoding.action_names, encoding.price_list, budget, table.y, table.classes
            ),
            routes=find_routes(
                x[places].astype(np.float64), available[places], table.y[places], problem, together
            ),
            restorers=find_restorers(x, available, table.y, problem, restorers, on_stage, table.instances)
            if restorers
            else None,
        )
    return findings, drawing


def _in_proportion(
    table: UserTable,
) -> tuple[Int[np.ndarray, " drawn"], Int[np.ndarray, " drawn"] | None]:
    """Rows in proportion to their weights, and which of them belong together; those that are repeated do."""
    everything = np.arange(len(table.y))
    if table.weights is None:
        return everything, table.instances
    rng = np.random.RandomState(0)
    drawn = repeat_in_proportion(rng, everything, table.weights, table.y, len(everything))
    of_rows = drawn if table.instances is None else table.instances[drawn]
    return drawn, np.unique(of_rows, return_inverse=True)[1]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
