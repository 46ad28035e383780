"""Anybody's own table: every kind of column, prices and panels, and each way to get one wrong."""

import datetime
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain import InputError
from ascertain.datasets import Dataset, from_file, from_frame

NAN, INF = float("nan"), float("inf")
N = 20


def patients(**columns: object) -> pd.DataFrame:
    """A sound table of twenty rows, with more or other columns."""
    sound = {
        "age": np.arange(N) + 40.0,
        "colour": ["red", "green", None, "blue"] * 5,
        "smoker": [True, False] * 10,
        "sick": ["no"] * 12 + ["yes"] * 8,
    }
    return pd.DataFrame(sound | columns)


def test_each_kind_of_column_becomes_features() -> None:
    dataset = from_frame(patients(), target="sick")
    problem = dataset.problem
    assert problem.feature_names == ("age", "colour=blue", "colour=green", "colour=red", "smoker")
    assert problem.action_names == ("age", "colour", "smoker")
    assert problem.class_names == ("no", "yes")
    np.testing.assert_array_equal(
        problem.reveals.astype(int), [[1, 0, 0, 0, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 1]]
    )
    x, y = dataset.draw(0)
    np.testing.assert_array_equal(x[:3, 1:], [[0, 0, 1, 1], [0, 1, 0, 0], [NAN, NAN, NAN, 1]])
    assert y.tolist() == [0] * 12 + [1] * 8
    assert (dataset.metric, dataset.stratified, dataset.name) == ("macro_f1", True, "table")


def test_prices_panels_and_budget() -> None:
    groups = {"visit": ["age", "smoker"]}
    priced = from_frame(
        patients(), target="sick", costs={"age": 2, "colour": 0.5}, groups=groups, default_cost=1
    )
    assert priced.problem.action_names == ("visit", "colour")
    assert priced.problem.costs.tolist() == [3.0, 0.5]  # 2 for the age and 1, unlisted, for smoking
    assert priced.budgets == (3.5,)
    by_panel = from_frame(
        patients(), target="sick", costs={"visit": 9}, groups=groups, budget=4, default_cost=1
    )
    assert by_panel.problem.costs.tolist() == [9.0, 1.0]
    assert [*by_panel.budgets, float(by_panel.problem.budget)] == [4, 4]


def test_a_panel_may_have_the_name_of_one_of_its_columns_and_hold_categories() -> None:
    problem = from_frame(patients(), target="sick", groups={"age": ["age", "colour"]}).problem
    assert problem.action_names == ("age", "smoker")
    np.testing.assert_array_equal(problem.reveals.sum(axis=1), [4, 1])


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pd.array([1, None] * 10, dtype="Int64"), [1, NAN] * 10),
        (pd.array([1.5, None, -2, 0] * 5, dtype="Float64"), [1.5, NAN, -2, 0] * 5),
        (pd.array([True, None, False, True] * 5, dtype="boolean"), [1, NAN, 0, 1] * 5),
        (pd.Series([True, None, False, True] * 5, dtype=object), [1, NAN, 0, 1] * 5),
        (pd.Series([1, None, 2.5, pd.NA] * 5, dtype=object), [1, NAN, 2.5, NAN] * 5),
        (pd.Series([Decimal("1.5"), None] * 10, dtype=object), [1.5, NAN] * 10),
        (np.arange(N, dtype=np.uint8), np.arange(N)),
    ],
)
def test_numbers_and_booleans_of_any_type_are_read(column: object, values: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some of these are constant
        dataset = from_frame(patients(extra=column), target="sick", groups={"colours": ["colour"]})
    assert dataset.problem.feature_names is not None
    column_of = dataset.problem.feature_names.index("extra")
    np.testing.assert_array_equal(dataset.draw(0).x[:, column_of], values)


@pytest.mark.parametrize("dtype", ["object", "string", "category"])
def test_text_of_any_type_is_read(dtype: str) -> None:
    table = patients(extra=pd.Series(["b", None, "a", "b"] * 5, dtype=dtype))
    names = from_frame(table, target="sick").problem.feature_names
    assert names is not None
    assert names[-2:] == ("extra=a", "extra=b")


def test_categories_keep_their_order_and_lose_those_that_never_occur() -> None:
    values = pd.Categorical(["high", "low", None, "low"] * 5, categories=["low", "mid", "high"], ordered=True)
    names = from_frame(patients(extra=values), target="sick").problem.feature_names
    assert names is not None
    assert names[-2:] == ("extra=low", "extra=high")


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ([0.0] * 10 + [1.0] * 10, ("0", "1")),
        ([True] * 10 + [False] * 10, ("False", "True")),
        (pd.Categorical(["z", "a"] * 10, categories=["z", "a"]), ("z", "a")),
        (pd.array([3, 7] * 10, dtype="Int64"), ("3", "7")),
    ],
)
def test_classes_of_any_type_are_named(target: object, names: tuple[str, ...]) -> None:
    assert from_frame(patients(sick=target), target="sick").problem.class_names == names


def test_columns_may_be_called_by_numbers() -> None:
    table = (
        pd.DataFrame(np.arange(60.0).reshape(20, 3)).assign(label=[0, 1] * 10).rename(columns={"label": 3})
    )
    dataset = from_frame(table, target=3, costs=pd.Series({0: 4.0, "both": 2}), groups={"both": [1, 2]})
    assert dataset.problem.action_names == ("0", "both")
    assert dataset.problem.costs.tolist() == [4.0, 2.0]


def test_a_polars_table_gives_the_same_dataset() -> None:
    columns: dict[str, list[Any]] = {
        "age": [1.5, None] * 10,
        "count": [1, 2, None, 4] * 5,
        "flag": [True, None] * 9 + [False, None],
        "word": ["a", "b", None, "a"] * 5,
        "sick": [0, 1] * 10,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        theirs = from_frame(pl.DataFrame(columns), target="sick")
        ours = from_frame(pd.DataFrame(columns), target="sick")
    assert theirs.problem.feature_names == ours.problem.feature_names
    np.testing.assert_array_equal(theirs.draw(0).x, ours.draw(0).x)
    np.testing.assert_array_equal(theirs.draw(0).y, ours.draw(0).y)
    categorical = pl.DataFrame(columns).with_columns(pl.col("word").cast(pl.Categorical))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert from_frame(categorical, target="sick").problem.feature_names == ours.problem.feature_names


def test_the_callers_table_is_left_alone() -> None:
    table = patients()
    before = table.copy(deep=True)
    from_frame(table, target="sick")
    pd.testing.assert_frame_equal(table, before)


def test_the_holes_survive_the_split() -> None:
    split = from_frame(patients(), target="sick").split(0)
    holes = sum(int((~np.asarray(part.available)).sum()) for part in split)
    assert holes == 5 * 3  # five patients without a colour, of three
    assert [len(part.y) for part in split] == [12, 4, 4]


@pytest.mark.parametrize("value", [3.0, True, "same"])
def test_a_constant_column_is_warned_of(value: object) -> None:
    with pytest.warns(
        UserWarning, match="the column 'extra' always holds (3|True|same); it can tell nothing"
    ):
        from_frame(patients(extra=[value] * 19 + [None]), target="sick")


each_error = pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        ({}, {"costs": {"age": 1}}, "the price list lacks 2 of 3 columns: 'colour', 'smoker'; list them,"),
        ({}, {"costs": {"age": -1}}, "the cost of 'age' is -1"),
        ({}, {"costs": {"age": INF}}, "the cost of 'age' is inf"),
        ({}, {"costs": {"age": "free"}}, "the cost of 'age' .*number"),
        ({}, {"costs": [1, 2, 3]}, r"costs must be a dict by name, got \[1, 2, 3\]"),
        ({}, {"groups": ["age"]}, r"groups must be a dict by name, got \['age'\]"),
        ({}, {"groups": {"a": 3}}, "the group 'a' must list its columns, got 3"),
        ({}, {"groups": {"visit": ["age", "agee"]}}, "the group 'visit' has 'agee', which is no column"),
        ({}, {"groups": {"visit": ["sick"]}}, "the group 'visit' has the target 'sick'"),
        ({}, {"groups": {"a": ["age"], "b": ["age"]}}, "'age' is listed twice, in 'a', 'b'"),
        ({}, {"groups": {"a": ["age", "age"]}}, "'age' is listed twice, in 'a'"),
        ({}, {"groups": {"smoker": ["age"]}}, "'smoker' has the name of a column outside it"),
        ({}, {"groups": {"sick": ["age"]}}, "'sick' has the name of a column outside it"),
        ({}, {"groups": {"a": []}}, r"the group 'a' must list its columns, got \[\]"),
        ({}, {"groups": {"a": "age"}}, "the group 'a' must list its columns, got 'age'"),
        ({}, {"target": "sik"}, "the table has no column 'sik'; did you mean 'sick'"),
        ({"sick": ["no", None] * 10}, {}, r"missing in 10 of 20 rows \(first in row 1\); drop these rows"),
        ({"sick": ["no"] * 20}, {}, "the target 'sick' has one class, 'no'"),
        (
            {"sick": ["no"] * 16 + ["yes"] * 4},
            {},
            "'yes' of the target 'sick' has too few rows to split .4.; merge",
        ),
        ({"sick": np.arange(20.0)}, {}, "the class '0' of the target 'sick' has too few rows"),
        ({"sick": [["no"], ["yes"]] * 10}, {}, "'sick' cannot be read as classes"),
        ({"age": [1.0, 2.0, INF, 4.0] * 5}, {}, "the column 'age' holds inf in row 2; write NaN"),
        ({"age": [1.0, 2.0, 3.0, -1e39] * 5}, {}, r"the column 'age' holds -1e\+39 in row 3"),
        ({"age": [NAN] * 20}, {}, "the column 'age' was never measured; drop it"),
        ({"age": [None] * 20}, {}, "the column 'age' was never measured; drop it"),
        ({"age": pd.to_timedelta(np.arange(20), "h")}, {}, "'age' has the type timedelta64"),
        ({"age": np.arange(20) * 1j}, {}, "Complex data not supported: give the parts of 'age' as columns"),
        ({"age": [[1], [2]] * 10}, {}, "the column 'age' holds a list in row 0"),
        ({"age": [None, datetime.time(12)] * 10}, {}, "the column 'age' holds a time in row 1"),
        ({"age": [None, 1, "two", 3] * 5}, {}, r"'age' mixes numbers \(row 1\) and text \(row 2\)"),
        ({"age": [True, 2.5] * 10}, {}, r"'age' mixes booleans \(row 0\) and numbers \(row 1\)"),
        ({"colour=red": np.arange(20)}, {}, "two features would be called 'colour=red'; rename a column"),
        ({}, {"budget": 0.5}, "a budget of 0.5 buys nothing"),
    ],
)


@each_error
def test_a_table_that_cannot_be_used_is_refused(
    table: dict[str, object], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        from_frame(patients(**table), **({"target": "sick"} | arguments))


def test_two_columns_of_one_name_are_refused() -> None:
    table = patients()
    with pytest.raises(InputError, match="two columns are called 'age'; rename one"):
        from_frame(pd.concat([table, table[["age"]]], axis=1), target="sick")


def test_a_column_that_identifies_rows_is_refused() -> None:
    table = pd.DataFrame({"id": [f"p{i}" for i in range(201)], "sick": np.arange(201) % 2})
    with pytest.raises(
        InputError, match="the column 'id' holds 201 different texts or categories, more than 200"
    ):
        from_frame(table, target="sick")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[1, 2]], "a pandas or polars DataFrame is needed, got list"),
        (pl.DataFrame({"a": [1]}).lazy(), "got LazyFrame"),
        (pd.DataFrame({"sick": []}), "the table is empty: it has 0 rows and 1 columns"),
        (pd.DataFrame({"sick": [0, 1] * 5}), "no column besides the target 'sick'"),
    ],
)
def test_what_is_no_table_is_refused(table: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_frame(table, target="sick")


def holes_in(values: st.SearchStrategy[Any], dtype: str) -> Callable[[int], st.SearchStrategy[pd.Series]]:
    """Draw columns of a type, with at least one value that is not missing."""

    def column(rows: int) -> st.SearchStrategy[pd.Series]:
        cells = st.lists(st.one_of(st.none(), values), min_size=rows - 1, max_size=rows - 1)
        return st.tuples(cells, values).map(lambda drawn: pd.Series([*drawn[0], drawn[1]], dtype=dtype))

    return column


WORDS = st.text("abc =é", max_size=3)
COLUMNS = [
    holes_in(st.floats(-1e6, 1e6), "float64"),
    holes_in(st.integers(-1000, 1000), "Int64"),
    holes_in(st.booleans(), "boolean"),
    holes_in(st.booleans(), "object"),
    holes_in(WORDS, "object"),
    holes_in(WORDS, "string"),
    holes_in(WORDS, "category"),
    holes_in(st.integers(0, 3), "category"),
]


@st.composite
def tables(draw: st.DrawFn) -> tuple[pd.DataFrame, dict[str, float], dict[str, list[str]]]:
    """Draw a table of mixed columns, prices of some of them and panels of others."""
    rows = draw(st.integers(10, 25))
    kinds = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=6))
    table = pd.DataFrame({f"c{i}": draw(kind(rows)) for i, kind in enumerate(kinds)})
    names = list(table.columns)
    panel_of = {name: draw(st.sampled_from([None, "p", "q"])) for name in names}
    groups = {p: [name for name in names if panel_of[name] == p] for p in ("p", "q")}
    groups = {panel: members for panel, members in groups.items() if members}
    priced = draw(st.lists(st.sampled_from([*names, *groups]), unique=True))
    costs = {name: draw(st.integers(0, 50)) / 4 for name in priced}
    return table.assign(label=np.arange(rows) % 2), costs, groups


@settings(deadline=None, max_examples=20)
@given(tables())
def test_any_mixed_table_is_read_faithfully(
    drawn: tuple[pd.DataFrame, dict[str, float], dict[str, list[str]]],
) -> None:
    table, costs, groups = drawn
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        dataset = from_frame(table, target="label", costs=costs, groups=groups, default_cost=1)
    columns = table.columns.drop("label")
    check_availability(dataset, table, groups)
    check_names(dataset, table, list(columns))

    members = groups | {name: [name] for name in columns if not any(name in g for g in groups.values())}
    prices = {
        action: costs.get(action, sum(costs.get(name, 1.0) for name in together))
        for action, together in members.items()
    }
    assert set(prices) == set(dataset.problem.action_names or ())
    np.testing.assert_allclose(dataset.budgets, [sum(prices.values())])
    np.testing.assert_allclose(dataset.problem.costs.sum(), sum(prices.values()), rtol=1e-6)
    np.testing.assert_array_equal(dataset.problem.reveals.sum(axis=0), 1)


def check_availability(dataset: Dataset, table: pd.DataFrame, groups: dict[str, list[str]]) -> None:
    """An action can be read for a row if and only if the row has all of its columns."""
    readable = np.asarray(dataset.problem.readable(jnp.asarray(~np.isnan(dataset.draw(0).x))))
    for action, found in zip(dataset.problem.action_names or (), readable.T, strict=True):
        np.testing.assert_array_equal(found, table[groups.get(action, [action])].notna().all(axis=1))


def check_names(dataset: Dataset, table: pd.DataFrame, columns: list[str]) -> None:
    """The cells can be told from the features and their names."""
    names = dataset.problem.feature_names or ()
    features = pd.DataFrame(dataset.draw(0).x, columns=list(names))
    for column in columns:
        if column in features:
            values = table[column].astype("Float64").to_numpy(float, na_value=np.nan)
            np.testing.assert_array_equal(features[column], values)
            continue
        one_hot = features[[name for name in names if name.startswith(f"{column}=")]]
        known = table[column].notna()
        np.testing.assert_array_equal(one_hot[known].sum(axis=1), 1)
        assert one_hot[~known].isna().to_numpy().all()
        named = [str(name).removeprefix(f"{column}=") for name in one_hot[known].idxmax(axis=1)]
        assert named == table[column][known].astype(str).tolist()


# Columns that are known from the start, several budgets, and files


def test_known_columns_are_at_their_means_where_they_are_missing() -> None:
    age = np.where(np.arange(N) % 5 == 0, NAN, np.arange(N) + 40.0)
    dataset = from_frame(patients(age=age), target="sick", known=["age", "smoker"], costs={"colour": 1})
    problem = dataset.problem
    assert problem.action_names == ("colour",)
    assert problem.feature_names == (
        "age",
        "colour=blue",
        "colour=green",
        "colour=red",
        "smoker",
        "age missing",
    )
    np.testing.assert_array_equal(problem.known, [True, False, False, False, True, True])
    assert dataset.budgets == (1.0,)
    raw = dataset.draw(0).x
    np.testing.assert_array_equal(raw[:, 5], np.isnan(age))
    split = dataset.split(0)
    for part in split:
        assert np.asarray(part.available)[:, [0, 4, 5]].all()
    lacking = np.asarray(split.train.x)[:, 5] > 0
    np.testing.assert_array_equal(np.asarray(split.train.x)[lacking, 0], 0)  # the mean, standardised
    measured = np.asarray(split.train.x)[~lacking, 0]
    np.testing.assert_allclose([measured.mean(), measured.std()], [0, 1], atol=1e-5)


def test_rows_are_complete_where_nothing_is_missing_or_what_is_missing_is_known() -> None:
    table = patients(colour=["red", "green"] * 10)
    assert from_frame(table, target="sick").complete
    assert not from_frame(patients(), target="sick").complete
    assert from_frame(patients(), target="sick", known=["colour"]).complete


def test_several_budgets() -> None:
    dataset = from_frame(patients(), target="sick", budgets=[3, 1, 2, 3])
    assert [*dataset.budgets, float(dataset.problem.budget)] == [1, 2, 3, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budgets": [2], "budget": 2}, "budget and budgets say the same; pass one"),
        ({"budgets": []}, "budgets is empty"),
        ({"budgets": [3, 0.5]}, "a budget of 0.5 buys nothing"),
        ({"budgets": ["2"]}, "budgets.0. is .*'2'.*, not a number"),
        ({"budgets": 2}, "budgets must be a sequence of numbers"),
        ({"known": ["sick"]}, "known has the target 'sick'"),
        ({"known": ["agee"]}, "known has 'agee', which is no column; did you mean 'age'"),
        ({"known": ["age", "colour", "smoker"]}, "all columns are known"),
        ({"costs": "prices.csv"}, "there is no file prices.csv"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_frame(patients(), target="sick", **arguments)


def written(folder: Path, table: pd.DataFrame) -> Path:
    path = folder / "clinic.csv"
    table.to_csv(path, index=False)
    return path


def test_a_file_gives_the_dataset_of_its_table(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text("name,cost\nage,2\nvisit,4.5\n")
    (tmp_path / "panels.csv").write_text("column,group\ncolour,visit\nsmoker,visit\n")
    lists: dict[str, Any] = {"costs": tmp_path / "prices.csv", "groups": str(tmp_path / "panels.csv")}
    table = patients(age=np.arange(N) * 1.5)  # a sequence would be taken for an identifier
    path = written(tmp_path, table)
    dataset = from_file(path, target="sick", budgets=[2, 6.5], **lists)
    assert (dataset.name, dataset.source, dataset.budgets) == ("clinic", "clinic.csv", (2, 6.5))
    ours = from_frame(
        table, target="sick", costs={"age": 2, "visit": 4.5}, groups={"visit": ["colour", "smoker"]}
    )
    assert dataset.problem.action_names == ours.problem.action_names == ("age", "visit")
    np.testing.assert_array_equal(dataset.problem.costs, ours.problem.costs)
    for theirs, mine in zip(dataset.split(2), ours.split(2), strict=True):
        np.testing.assert_array_equal(theirs.x, mine.x)
        np.testing.assert_array_equal(theirs.available, mine.available)
        np.testing.assert_array_equal(theirs.y, mine.y)
    tabs = tmp_path / "clinic.tsv"
    table.to_csv(tabs, index=False, sep="\t")
    table.to_parquet(tmp_path / "clinic.parquet")
    for other in (tabs, tmp_path / "clinic.parquet"):
        prices = {"age": 2, "colour": 1}
        again = from_file(other, target="sick", costs=prices, known=["smoker"], name="mine")
        assert (again.name, again.problem.action_names) == ("mine", ("age", "colour"))


def test_rows_and_columns_of_a_file_that_cannot_be_used_are_left_out_with_a_warning(tmp_path: Path) -> None:
    table = pd.concat([patients()] * 2).assign(id=np.arange(2 * N), empty=None)
    table["sick"] = table["sick"].where(~table["id"].isin([3, 30]))
    with pytest.warns(UserWarning, match="left out") as caught:
        dataset = from_file(
            written(tmp_path, table),
            target="sick",
            costs={"id": 1, "age": 2},
            known=["empty"],
            default_cost=1,
        )
    assert [str(warning.message) for warning in caught] == [
        "clinic.csv: 2 rows without the target 'sick' are left out",
        "clinic.csv: the column 'id' is left out: it numbers the rows, as an identifier does",
        "clinic.csv: the column 'empty' is left out: it was never measured",
    ]
    assert dataset.problem.action_names == ("age", "colour", "smoker")
    assert dataset.problem.costs.tolist() == [2, 1, 1]
    assert len(dataset.draw(0).y) == 38


def test_a_file_needs_rows_of_each_class(tmp_path: Path) -> None:
    table = patients(age=np.arange(N) * 1.5, sick=["no"] * 17 + ["yes"] * 3)
    with pytest.raises(InputError, match=r"'yes' of the target 'sick' has too few rows to split \(3\)"):
        from_file(written(tmp_path, table), target="sick")
