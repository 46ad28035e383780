"""Tables as people have them, to time `ascertain fit` on and to hold its claims against the truth.

Simulated tables come with complete rows that no fit sees, so that the true score of a policy is known.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from ascertain import load
from ascertain.datasets._export import TARGET, export
from ascertain.testing import planted_table

FRESH_ROWS = 40_000  # complete ones, for the truth


@dataclass(frozen=True, eq=False)
class PracticeTable:
    """A table with its target, prices and panels, and complete rows of the same kind if it is simulated."""

    table: pd.DataFrame
    target: str
    budget: float
    prices: Mapping[str, float]
    known: tuple[str, ...] = ()
    panels: Mapping[str, list[str]] = field(default_factory=dict)
    default_cost: float | None = None
    fresh: pd.DataFrame | None = None

    def write(self, folder: Path) -> list[str]:
        """Write the files, and return what `ascertain fit` is called with."""
        file, prices = folder / "table.csv", folder / "prices.csv"
        self.table.to_csv(file, index=False)
        pd.DataFrame(self.prices.items(), columns=["name", "cost"]).to_csv(prices, index=False)
        options = {"--target": self.target, "--costs": str(prices), "--budget": f"{self.budget:g}"}
        if self.known:
            options["--known"] = ",".join(self.known)
        if self.panels:
            panels = folder / "panels.csv"
            pairs = [(column, panel) for panel, columns in self.panels.items() for column in columns]
            pd.DataFrame(pairs, columns=["column", "group"]).to_csv(panels, index=False)
            options["--groups"] = str(panels)
        if self.default_cost is not None:
            options["--default-cost"] = f"{self.default_cost:g}"
        return [str(file), *(text for option in options.items() for text in option)]


def heart_sites(seed: int, n_rows: int) -> PracticeTable:
    """920 patients of four hospitals, with real holes and prices."""
    return _real("heart_sites", 120.0, ("age", "sex", "site"), seed, n_rows)


def physionet(seed: int, n_rows: int) -> PracticeTable:
    """12,000 patients in intensive care, 41 measurements."""
    return _real("physionet2012", 5.0, ("Age", "Gender", "ICUType"), seed, n_rows)


def maintenance(seed: int, n_rows: int) -> PracticeTable:
    """Two kinds of machines: a cheap column says which two of the others matter."""
    planted = planted_table("maintenance", seed, n_train=n_rows, n_test=FRESH_ROWS)
    states = np.array(["runs", "fails"])
    return PracticeTable(
        planted.train.assign(state=states[planted.train_labels]),
        "state",
        planted.budget,
        planted.costs,
        planted.known,
        fresh=planted.test.assign(state=states[planted.test_labels]),
    )


def rare_outcome(seed: int, n_rows: int) -> PracticeTable:
    """40 columns, of which six tell an outcome that 1.7% of the rows have; half of the cells are missing."""
    rng = np.random.default_rng([seed, *b"rare outcome"])
    weights = np.zeros(40)
    weights[:6] = 1.0, 0.8, 0.6, 0.5, 0.4, 0.3
    names = [f"x_{place}" for place in range(len(weights))]

    def draw(n: int) -> pd.DataFrame:
        x = rng.normal(size=(n, len(weights)))
        ill = rng.random(n) < _chance(x @ weights - 5.2)
        return pd.DataFrame(x.round(4), columns=names).assign(outcome=np.where(ill, "ill", "well"))

    table, fresh = draw(n_rows), draw(FRESH_ROWS)
    for name in names:
        table.loc[rng.random(n_rows) < 0.5, name] = np.nan
    return PracticeTable(table, "outcome", 5.0, dict.fromkeys(names, 1.0), fresh=fresh)


def credit(seed: int, n_rows: int) -> PracticeTable:
    """Good, late and default customers, with every mess that a real table has.

    Identifiers, dates, texts with commas and quotes, an empty and a constant column, booleans, categories
    with accents, prices for eight columns only, and holes in 5 to 40% of the cells; the balance and the
    bureau's score are asked for more often from the young and from those without a house.
    """
    rng = np.random.default_rng([seed, *b"credit"])
    table, fresh = _customers(rng, n_rows), _customers(rng, FRESH_ROWS)
    holes = {"owner": 0.05, "region": 0.05, "income": 0.2, "debt": 0.25, "utilisation": 0.3, "delays": 0.15}
    for name, share in {**holes, "employment": 0.1, "inquiries": 0.4}.items():
        table[name] = table[name].mask(rng.random(n_rows) < share)
    age = (table["age"].to_numpy() - 45) / 15
    table["balance"] = table["balance"].mask(rng.random(n_rows) < _chance(age))
    table["bureau"] = table["bureau"].mask(rng.random(n_rows) < _chance(1.5 * age - 0.5))
    prices = {"income": 3.0, "debt": 2.0, "utilisation": 2.0, "delays": 2.0, "employment": 1.0}
    prices |= {"bureau": 6.0, "balance": 2.0, "inquiries": 1.0}
    return PracticeTable(
        table, "status", 8.0, prices, known=("age", "applied"), default_cost=1.0, fresh=fresh
    )


@dataclass(frozen=True)
class Kind:
    """A table to time: how it is made, and what it should take at most on two quiet cores."""

    make: Callable[[int, int], PracticeTable]
    rows: int
    seconds: float
    gigabytes: float | None = None
    effort: str = "low"


KINDS = {
    "heart_sites": Kind(heart_sites, 920, 45),
    "maintenance": Kind(maintenance, 6_000, 60),
    "credit": Kind(credit, 20_000, 90),
    "rare_200k": Kind(rare_outcome, 200_000, 240, 3.0),
    "rare_1m": Kind(rare_outcome, 1_000_000, 600, 8.0),
    "physionet": Kind(physionet, 12_000, 300, effort="standard"),
}


def _real(name: str, budget: float, known: tuple[str, ...], seed: int, n_rows: int) -> PracticeTable:
    """A dataset as a person would hold it, or some of its rows."""
    exported = export(load(name))
    table = exported.table
    if n_rows < len(table):
        table = table.sample(n_rows, random_state=seed)
    prices = {column: price for column, price in exported.prices.items() if column not in known}
    return PracticeTable(table, TARGET, budget, prices, known, exported.panels)


def _chance(logit: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logit))


def _customers(rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Complete rows: 16 columns and the status."""
    owner, delays = rng.random(n) < 0.4, rng.poisson(0.7, n)
    income, debt, balance, use, bureau = rng.normal(size=(5, n))
    bureau = bureau - 0.6 * delays + 0.5 * income
    risk = 0.9 * delays + 0.8 * use - 0.7 * income + 0.5 * debt - 0.5 * owner - 0.6 * bureau
    late, default = np.exp(risk - 1.5), np.exp(1.6 * risk - 4.2)
    drawn = rng.random(n) * (1 + late + default)
    status = np.select([drawn < 1, drawn < 1 + late], ["good", "late"], "default")
    days = pd.to_datetime("2019-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), unit="D")
    notes = np.array(['said "call back", twice', "moved, new address", "", "ok; see file, p. 3"])
    words = np.char.add(notes[rng.integers(0, 4, n)], np.char.add(" ", rng.integers(0, 10**6, n).astype(str)))
    regions = np.array(["Köln", "Zürich", "Łódź", "São Paulo", "東京"])
    jobs = np.array(["employed", "self-employed", "none", "retired"])
    return pd.DataFrame(
        {
            "customer": [f"K-{number:07d}" for number in rng.permutation(n)],
            "applied": days.strftime("%Y-%m-%d"),
            "note": words,
            "fax": np.full(n, np.nan),
            "currency": "EUR",
            "age": rng.integers(20, 75, n),
            "owner": owner,
            "region": regions[rng.integers(0, 5, n)],
            "income": np.exp(8 + 0.5 * income).round(2),
            "debt": (5000 + 2000 * debt).round(2),
            "utilisation": _chance(use).round(3),
            "delays": delays,
            "employment": jobs[rng.integers(0, 4, n)],
            "bureau": (600 + 60 * bureau).round(),
            "inquiries": rng.poisson(2, n),
            "balance": (1500 + 800 * balance).round(2),
            "status": status,
        }
    )
