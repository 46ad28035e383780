"""Tables with a planted structure: the best route is known, so a policy can be held against it.

Each table has training rows with holes, and complete rows to score on. In some of them adapting pays: a cheap
measurement says which of the others matter. In the others every row needs the same measurements.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from ascertain.errors import InputError, did_you_mean

_PROXY_ERROR, _TEST_ERROR = 0.3, 0.02  # how often the cheap proxy and a decisive test are wrong
_SLOPE = 1.2  # of the log-odds of being measured, per standard deviation of what decides it


@dataclass(frozen=True, eq=False)
class PlantedTable:
    """A table whose best route is known.

    Examples
    --------
    >>> table = planted_table("two_dear_tests", n_train=10, n_test=2)
    >>> table.budget, table.costs["biopsy"]
    (11.0, 10.0)
    """

    train: pd.DataFrame  # with holes
    train_labels: Int[np.ndarray, " rows"]
    test: pd.DataFrame  # complete
    test_labels: Int[np.ndarray, " others"]
    costs: Mapping[str, float]
    known: tuple[str, ...]  # columns that cost nothing
    budget: float
    route: Bool[
        np.ndarray, "others columns"
    ]  # the columns of the best route for each test row, as in `costs`

    def on_route(self) -> pd.DataFrame:
        """The test rows with nothing but what the best route acquires, and what is known."""
        acquired = pd.DataFrame(self.route, index=self.test.index, columns=list(self.costs))
        return self.test.where(acquired.reindex(columns=self.test.columns, fill_value=True))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Complete rows, their labels, and what the best route acquires in each."""

    table: pd.DataFrame
    labels: Int[np.ndarray, " rows"]
    route: Bool[np.ndarray, "rows columns"]


Draw = Callable[[np.random.Generator, int], _Rows]


@dataclass(frozen=True)
class _Kind:
    draw: Draw
    costs: Mapping[str, float]
    budget: float
    known: tuple[str, ...] = ()
    missing_at_random: bool = False  # by the first known column, in place of completely at random


def planted_names(*, adaptive: bool | None = None) -> list[str]:
    """The names of all planted tables, of those where adapting pays, or of those where it does not.

    Examples
    --------
    >>> planted_names(adaptive=True)
    ['maintenance', 'decisive_test', 'three_contexts', 'categorical_mar', 'two_dear_tests']
    """
    kinds = {**(_ADAPTIVE if adaptive is not False else {}), **(_FIXED if adaptive is not True else {})}
    return list(kinds)


def planted_table(name: str, seed: int = 0, *, n_train: int = 6000, n_test: int = 20_000) -> PlantedTable:
    """Draw a planted table: half of the training cells are missing, the test rows are complete.

    Parameters
    ----------
    name
        One of `planted_names()`.
    seed
        Of all draws.
    n_train, n_test
        The numbers of rows.

    Examples
    --------
    >>> table = planted_table("maintenance", n_train=100, n_test=4)
    >>> table.on_route().notna().sum(axis=1).tolist()  # machine, the pair that matters there, and the age
    [4, 4, 4, 4]
    """
    kinds = {**_ADAPTIVE, **_FIXED}
    if name not in kinds:
        raise InputError(f"no planted table is called {name!r}; {did_you_mean(name, kinds)}")
    kind, rng = kinds[name], np.random.default_rng([seed, *name.encode()])
    train, test = kind.draw(rng, n_train), kind.draw(rng, n_test)
    holes = _holes(rng, kind, train.table)
    return PlantedTable(
        train.table.mask(holes),
        train.labels,
        test.table,
        test.labels,
        kind.costs,
        kind.known,
        kind.budget,
        test.route,
    )


def _holes(rng: np.random.Generator, kind: _Kind, table: pd.DataFrame) -> pd.DataFrame:
    uniform = rng.random(table.shape)
    chance = np.full(len(table), 0.5)
    if kind.missing_at_random:
        chance = _probability(-_SLOPE * table[kind.known[0]].to_numpy())
    holes = pd.DataFrame(uniform < chance[:, None], index=table.index, columns=table.columns)
    holes[list(kind.known)] = False
    return holes


def _probability(logit: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
    return 1 / (1 + np.exp(-logit))


def _flipped(rng: np.random.Generator, labels: np.ndarray, error: float) -> np.ndarray:
    return np.where(rng.random(len(labels)) < error, 1 - labels, labels)


def _contexts(context: str, names: tuple[str, ...], pairs: tuple[tuple[str, str], ...]) -> Draw:
    """A context says which pair of columns decides; the proxy `beep` knows a little of everything."""

    def draw(rng: np.random.Generator, n: int) -> _Rows:
        columns = [column for pair in pairs for column in pair]
        values = pd.DataFrame(rng.normal(size=(n, len(columns))), columns=columns)
        active = rng.integers(len(pairs), size=n)
        sums = np.stack([values[list(pair)].sum(axis=1) for pair in pairs])
        labels = (rng.random(n) < _probability(2 * sums[active, np.arange(n)])).astype(int)
        table = pd.DataFrame({"age_h": rng.normal(size=n), context: np.array(names)[active]})
        table = pd.concat([table, values], axis=1)
        table["beep"] = _flipped(rng, labels, _PROXY_ERROR)
        table["teardown"] = _flipped(rng, labels, _TEST_ERROR)
        table["hum"], table["temp"] = rng.normal(size=(2, n))
        priced = table.columns[1:]
        route = np.stack([priced.isin((context, *pairs[each])) for each in range(len(pairs))])[active]
        return _Rows(table, labels, route)

    return draw


def _context_costs(context: str, pairs: tuple[tuple[str, str], ...]) -> dict[str, float]:
    costs = {context: 1.0, **{column: 2.0 for pair in pairs for column in pair}}
    return {**costs, "beep": 1.0, "teardown": 12.0, "hum": 1.0, "temp": 1.0}


def _one_dear_test(draw: Draw, test: str) -> Draw:
    """The same rows, at a budget that pays for the test that decides by itself."""

    def with_test(rng: np.random.Generator, n: int) -> _Rows:
        rows = draw(rng, n)
        route = np.broadcast_to(rows.table.columns[1:] == test, rows.route.shape)
        return _Rows(rows.table, rows.labels, route)

    return with_test


def _two_dear_tests(rng: np.random.Generator, n: int) -> _Rows:
    """A cheap column says which of two dear tests tells the label; the other one tells nothing."""
    labels = rng.integers(2, size=n)
    strain = rng.integers(2, size=n)
    answer, guess = _flipped(rng, labels, _TEST_ERROR), rng.integers(2, size=n)
    table = pd.DataFrame({"age": rng.normal(size=n), "strain": np.array(["alpha", "beta"])[strain]})
    table["culture"] = np.where(strain == 0, answer, guess)
    table["biopsy"] = np.where(strain == 1, answer, guess)
    table["strip"] = _flipped(rng, labels, _PROXY_ERROR)
    table["fever"] = labels + rng.normal(size=n) * 1.5
    table["pulse"], table["weight"] = rng.normal(size=(2, n))
    priced = table.columns[1:]
    route = np.stack([priced.isin(("strain", test)) for test in ("culture", "biopsy")])[strain]
    return _Rows(table, labels, route)


def _additive(weights: Mapping[str, float], panel: tuple[str, ...]) -> Draw:
    """Independent columns add up; the best panel is the same for every row."""

    def draw(rng: np.random.Generator, n: int) -> _Rows:
        table = pd.DataFrame(rng.normal(size=(n, len(weights))), columns=list(weights))
        labels = (rng.random(n) < _probability(table.to_numpy() @ np.array(list(weights.values())))).astype(
            int
        )
        return _Rows(table, labels, np.broadcast_to(table.columns.isin(panel), table.shape))

    return draw


def _copies(rng: np.random.Generator, n: int) -> _Rows:
    """Every column is the same latent value with its own noise: any panel of this size is as good."""
    latent = rng.normal(size=n)
    names = [f"gauge_{place}" for place in range(1, 9)]
    table = pd.DataFrame(latent[:, None] + rng.normal(size=(n, 8)), columns=names)
    labels = (rng.random(n) < _probability(2 * latent)).astype(int)
    return _Rows(table, labels, np.broadcast_to(table.columns.isin(names[:3]), table.shape))


def _grades(rng: np.random.Generator, n: int) -> _Rows:
    """Categorical columns add up; two of them matter."""
    effects = {"grade": (-2.0, 0.0, 2.0), "zone": (-1.5, 0.0, 1.5), "colour": (0.0,) * 3, "lot": (0.0,) * 3}
    drawn = {name: rng.integers(3, size=n) for name in effects}
    logit = sum(np.array(effects[name])[drawn[name]] for name in effects)
    table = pd.DataFrame({name: np.array(["low", "middle", "high"])[drawn[name]] for name in effects})
    labels = (rng.random(n) < _probability(np.asarray(logit))).astype(int)
    return _Rows(table, labels, np.broadcast_to(table.columns.isin(("grade", "zone")), table.shape))


_TWO = (("vib_1", "vib_2"), ("oil_1", "oil_2"))
_THREE = (*_TWO, ("amp_1", "amp_2"))
_MACHINES = _contexts("machine", ("rail", "road"), _TWO)
_SITES = _contexts("site", ("north", "south", "coast"), _THREE)
_EQUAL = {f"x{place}": weight for place, weight in enumerate((1.5, 1.2, 1.0, 0.2, 0.1, 0.0, 0.0, 0.0))}
_DEAR = {"scan": 2.0, "blood": 1.2, "urine": 0.9, "reflex": 0.3, "gait": 0.0, "skin": 0.0}

_ADAPTIVE = {
    "maintenance": _Kind(_MACHINES, _context_costs("machine", _TWO), 5.0, ("age_h",)),
    "decisive_test": _Kind(
        _one_dear_test(_MACHINES, "teardown"), _context_costs("machine", _TWO), 12.0, ("age_h",)
    ),
    "three_contexts": _Kind(_SITES, _context_costs("site", _THREE), 5.0, ("age_h",)),
    "categorical_mar": _Kind(_SITES, _context_costs("site", _THREE), 5.0, ("age_h",), missing_at_random=True),
    "two_dear_tests": _Kind(
        _two_dear_tests,
        {
            "strain": 1.0,
            "culture": 10.0,
            "biopsy": 10.0,
            "strip": 1.0,
            "fever": 1.0,
            "pulse": 1.0,
            "weight": 1.0,
        },
        11.0,
        ("age",),
    ),
}
_FIXED = {
    "additive": _Kind(_additive(_EQUAL, ("x0", "x1", "x2")), dict.fromkeys(_EQUAL, 1.0), 3.0),
    "priced": _Kind(
        _additive(_DEAR, ("scan", "urine")),
        {"scan": 5.0, "blood": 3.0, "urine": 2.0, "reflex": 1.0, "gait": 1.0, "skin": 1.0},
        7.0,
    ),
    "copies": _Kind(_copies, {f"gauge_{place}": 1.0 for place in range(1, 9)}, 3.0),
    "grades": _Kind(_grades, dict.fromkeys(("grade", "zone", "colour", "lot"), 1.0), 2.0),
    "noise": _Kind(
        _additive(dict.fromkeys(_EQUAL, 0.0), ("x0", "x1", "x2")), dict.fromkeys(_EQUAL, 1.0), 3.0
    ),
}
