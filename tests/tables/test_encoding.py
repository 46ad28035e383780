"""Columns as features: against pandas and scikit-learn, there and back, prices, and each mistake."""

import json
import pickle
from decimal import Decimal
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from ascertain import InputError
from ascertain.tables._encoding import MOST_DEVIATIONS, Encoding, fit_encoding

NAN, INF = float("nan"), float("inf")


def patients(**columns: object) -> pd.DataFrame:
    """A sound table of eight rows, with more or other columns."""
    sound = {
        "age": [40, 51, 62, 73, 84, 40, 51, 62],
        "colour": ["red", "green", None, "Blue"] * 2,
        "smoker": [True, False, True, True] * 2,
        "scan": [0.5, NAN, 2.5, 1.0] * 2,
    }
    return pd.DataFrame(sound | columns)


def same(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> None:
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])


NUMBERS = st.floats(-(2.0**100), 2.0**100, width=32) | st.integers(-1000, 1000).map(float)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=5)


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    """Draw a table of every kind of column, with holes."""
    rows = draw(st.integers(1, 8))

    def column(cells: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(st.none() | cells, min_size=rows, max_size=rows))

    return pd.DataFrame(
        {
            "number": pd.Series(column(NUMBERS), dtype="float64"),
            "nullable": pd.array(column(st.integers(-(2**53), 2**53)), dtype="Int64"),
            "flag": pd.array(column(st.booleans()), dtype="boolean"),
            "text": pd.Series(column(TEXTS), dtype=object),
            "category": pd.Categorical(column(st.sampled_from(["a", "A", "b"]))),
        }
    )


# What the features are


def test_numbers_are_standardised_as_by_scikit_learn() -> None:
    numbers = np.random.default_rng(0).normal(5, 3, (50, 4))
    numbers[:, 1] = 0.1  # constant: its deviation is rounding alone
    numbers[:, 2] *= 1e20
    numbers[::3, 3] = NAN
    x, available = fit_encoding(numbers).transform(numbers)
    assert x.dtype == np.float32
    np.testing.assert_array_equal(available, ~np.isnan(numbers))
    expected = np.nan_to_num(StandardScaler().fit_transform(numbers))
    np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-6)


def test_categories_are_those_of_get_dummies() -> None:
    table = patients()
    encoding = fit_encoding(table)
    dummies = pd.get_dummies(table["colour"], prefix="colour", prefix_sep="=")
    block = slice(1, 4)
    assert (
        encoding.feature_names[block]
        == tuple(dummies.columns)
        == ("colour=Blue", "colour=green", "colour=red")
    )
    measured = table["colour"].notna().to_numpy()
    x, available = encoding.transform(table)
    np.testing.assert_array_equal(available[:, block], np.broadcast_to(measured[:, None], (8, 3)))
    expected = StandardScaler().fit_transform(dummies[measured].astype(float))
    np.testing.assert_allclose(x[measured, block], expected, rtol=1e-6)
    assert not x[~measured, block].any()


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pd.array([1, None, 3, 5], dtype="Int64"), [1, NAN, 3, 5]),
        (pd.array([1.5, None, -2, 0], dtype="Float64"), [1.5, NAN, -2, 0]),
        (pd.array([True, None, False, True], dtype="boolean"), [1, NAN, 0, 1]),
        (pd.Series([True, None, False, True], dtype=object), [1, NAN, 0, 1]),
        (pd.Series([1, None, 2.5, pd.NA], dtype=object), [1, NAN, 2.5, NAN]),
        (pd.Series([Decimal("1.5"), None, Decimal("NaN"), 2], dtype=object), [1.5, NAN, NAN, 2]),
        (np.arange(4, dtype=np.uint8), np.arange(4)),
        (np.array([1, 2, NAN, 4], np.float32), [1, 2, NAN, 4]),
    ],
)
def test_numbers_of_any_type_mean_the_same(column: object, values: object) -> None:
    plain = pd.DataFrame({"a": np.array(values, float)})
    table = pd.DataFrame({"a": column})
    same(fit_encoding(table).transform(table), fit_encoding(plain).transform(plain))
    same(fit_encoding(table).transform(plain), fit_encoding(plain).transform(plain))
    many = [pd.concat([each] * 40, ignore_index=True) for each in (table, plain)]  # is read by column
    same(fit_encoding(table).transform(many[0]), fit_encoding(plain).transform(many[1]))


def test_arrays_are_named_as_scikit_learn_names_them() -> None:
    array = np.array([[1, 2.5, NAN], [3, NAN, 0]])
    encoding = fit_encoding(array)
    assert encoding.feature_names == encoding.action_names == ("x0", "x1", "x2")
    expected = encoding.transform(array)
    objects = np.array([[1, 2.5, None], [3, pd.NA, 0]], object)
    masked = np.ma.masked_invalid(array)
    for same_rows in (
        objects,
        masked,
        array.tolist(),
        objects.tolist(),
        pd.DataFrame(array),
        pl.DataFrame(array),
    ):
        same(encoding.transform(same_rows), expected)
        assert fit_encoding(same_rows).columns[0].mean == encoding.columns[0].mean
    assert fit_encoding(array, feature_names=["a", "b", "c"]).feature_names == ("a", "b", "c")


def test_a_list_may_mix_numbers_and_text() -> None:
    encoding = fit_encoding([[1, "a"], [2, "b"]])
    assert [column.kind for column in encoding.columns] == ["number", "category"]
    assert encoding.feature_names == ("x0", "x1=a", "x1=b")


def test_polars_is_read_as_pandas_is() -> None:
    assert fit_encoding(pl.from_pandas(patients())) == fit_encoding(patients())
    table = patients(level=pd.Categorical(["low", "high"] * 4))  # polars has another order of categories
    encoding = fit_encoding(table)
    same(encoding.transform(pl.from_pandas(table)), encoding.transform(table))


def test_categories_of_numbers_and_intervals_are_known_by_name() -> None:
    stage = pd.Categorical([1.0, 2.0, None, 1.0])
    band = pd.cut([1, 5, 9, 1], [0, 3, 6, 10])
    table = pd.DataFrame({"stage": stage, "band": band})
    encoding = fit_encoding(table)
    assert encoding.feature_names == ("stage=1", "stage=2", "band=(0, 3]", "band=(3, 6]", "band=(6, 10]")
    same(encoding.transform(encoding.inverse(*encoding.transform(table))), encoding.transform(table))
    same(encoding.transform([[1, "(0, 3]"]]), encoding.transform(table[:1]))


def test_a_column_that_was_never_measured_is_never_available() -> None:
    table = patients(note=[None] * 8, scan=[NAN] * 8)
    encoding = fit_encoding(table, groups={"visit": ["age", "note"]})
    later = patients(note=["text"] * 8)
    x, available = encoding.transform(later)
    holes = [encoding.feature_names.index(name) for name in ("note", "scan")]
    assert not x[:, holes].any()
    assert not available[:, holes].any()
    # The rest of its panel can still be acquired; its own action would reveal nothing else.
    problem = encoding.problem(None, ["no", "yes"])
    readable = np.asarray(problem.readable(jnp.asarray(available)))
    assert dict(zip(encoding.action_names, readable[0], strict=True)) == {
        "visit": True, "colour": True, "smoker": True, "scan": False,
    }  # fmt: skip
    with pytest.raises(InputError, match="'scan' takes nothing, as it was never measured in training"):
        encoding.parse("scan", "1")


def test_values_that_would_overflow_are_cut_off() -> None:
    encoding = fit_encoding([[0.0, 1], [1e-30, 1]])
    x, available = encoding.transform([[1e30, 1e30], [-1e30, 1]])
    assert available.all()
    np.testing.assert_array_equal(x, np.float32(MOST_DEVIATIONS) * np.array([[1, 1], [-1, 0]]))


@settings(max_examples=40, deadline=None)
@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_columns_and_the_number_of_rows_are_irrelevant(table: pd.DataFrame, random: Any) -> None:
    encoding = fit_encoding(table)
    expected = encoding.transform(table)
    order = list(table.columns)
    random.shuffle(order)
    same(encoding.transform(table[order]), expected)
    by_row = [encoding.transform(table.iloc[[row]]) for row in range(len(table))]
    same((np.vstack([x for x, _ in by_row]), np.vstack([there for _, there in by_row])), expected)
    many = pd.concat([table] * 65, ignore_index=True)  # read by column rather than by cell
    same(encoding.transform(many), (np.tile(expected[0], (65, 1)), np.tile(expected[1], (65, 1))))
    same(encoding.transform(table.to_numpy(object)), expected)


@settings(max_examples=40, deadline=None)
@given(tables())
def test_there_and_back(table: pd.DataFrame) -> None:
    encoding = fit_encoding(table)
    x, available = encoding.transform(table)
    back = encoding.inverse(x, available)
    assert list(back.columns) == list(table.columns)
    for column in encoding.columns:
        was, now = table[column.name], back[column.name]
        np.testing.assert_array_equal(was.isna(), now.isna())
        known = was.notna()
        if column.kind == "number":
            # Single precision: 24 bits of the distance from the mean, and of what is added to it.
            ranges = max(abs(column.low or 0), abs(column.high or 0)) * 2.0**-50
            error = np.abs(was[known].astype(float) - now[known].astype(float))
            assert (error <= 2.0**-22 * np.abs(was[known].astype(float) - column.mean[0]) + ranges).all()
        else:
            assert was[known].tolist() == now[known].tolist()
    other = encoding.transform(back)
    np.testing.assert_array_equal(other[1], available)
    np.testing.assert_allclose(other[0], x, rtol=1e-5, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(tables(), st.floats(0, 1e30), st.booleans())
def test_json_gives_the_same_encoding(table: pd.DataFrame, price: float, of_array: bool) -> None:
    given_as = table.to_numpy(object) if of_array else table
    first = "x0" if of_array else "number"
    encoding = fit_encoding(
        given_as, costs={first: price}, known=["x2" if of_array else "flag"], default_cost=1
    )
    content = json.loads(json.dumps(encoding.to_json(), allow_nan=False))
    assert content == encoding.to_json()
    restored = Encoding.from_json(content)
    assert restored == encoding == pickle.loads(pickle.dumps(encoding))
    same(restored.transform(given_as), encoding.transform(given_as))


# What acquiring them costs


def test_prices_panels_and_what_is_known() -> None:
    encoding = fit_encoding(
        patients(),
        costs={"age": 7, "scan": 2, "colour": 0.5},
        groups={"visit": ["smoker", "scan"]},
        known=["age"],
        default_cost=1,
    )
    assert [(action.name, action.columns, action.price) for action in encoding.actions] == [
        ("colour", ("colour",), 0.5),
        ("visit", ("smoker", "scan"), 3.0),  # 1, unlisted, and 2
    ]
    assert encoding.known == ("age",)
    problem = encoding.problem(None, ["no", "yes"])
    assert float(problem.budget) == 3.5
    assert problem.action_names == encoding.action_names
    assert problem.feature_names == encoding.feature_names
    np.testing.assert_array_equal(problem.reveals.astype(int), [[0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]])
    np.testing.assert_array_equal(problem.known, [True] + 5 * [False])
    assert float(encoding.problem(2, ["a", "b", "c"]).budget) == 2
    with pytest.raises(InputError, match=r"budget of 0\.25 buys nothing: the cheapest action costs 0\.5"):
        encoding.problem(0.25, ["no", "yes"])
    by_panel = fit_encoding(
        patients(), costs={"visit": 9}, groups={"visit": iter(["smoker", "scan"])}, default_cost=0
    )
    assert by_panel.actions[2].price == 9


def test_costs_in_order_of_the_columns() -> None:
    groups = {"scan": ["scan", "smoker"]}  # has the name of one of its columns
    for costs in ([1, 2, 3, 4], np.arange(1.0, 5), pd.Series({"age": 1, "colour": 2, "scan": 7})):
        encoding = fit_encoding(patients(), costs=costs, groups=groups)
        assert {action.name: action.price for action in encoding.actions} == {
            "age": 1,
            "colour": 2,
            "scan": 7,
        }


def test_known_columns_are_always_there_with_a_flag_where_training_rows_lacked_them() -> None:
    table = pd.DataFrame({"age": [40, 50, None], "sex": ["f", "m", "f"], "scan": [0.5, None, 2.5]})
    encoding = fit_encoding(table, known=["age", "sex"])
    assert encoding.feature_names == ("age", "sex=f", "sex=m", "scan", "age missing")
    x, available = encoding.transform(table)
    np.testing.assert_array_equal(available[:, 3], [True, False, True])
    assert np.delete(available, 3, axis=1).all()
    np.testing.assert_array_equal(x[:, 0], [-1, 1, 0])  # at the mean where it is missing
    np.testing.assert_array_equal(x[:, 4], [0, 0, 1])
    problem = encoding.problem(None, ["no", "yes"])
    np.testing.assert_array_equal(problem.known, [True, True, True, False, True])
    pd.testing.assert_frame_equal(
        encoding.inverse(x, available), table, check_dtype=False, check_categorical=False
    )
    never_seen, _ = encoding.transform(pd.DataFrame({"age": [45], "sex": [None], "scan": [1.0]}))
    np.testing.assert_array_equal(never_seen[:, [1, 2, 4]], [[0, 0, 0]])
    with pytest.raises(InputError, match="all columns are known, so there is nothing to acquire"):
        fit_encoding([[1, 2]], known=["x0", "x1"])


# What people type


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("age", "40", 40.0),
        ("scan", " 1,5 ", 1.5),
        ("scan", "-.5e1", -5.0),
        ("scan", "\N{MINUS SIGN}2", -2.0),
        ("scan", "1.234,5", 1234.5),
        ("scan", "1,234.5", 1234.5),
        ("scan", "0,125", 0.125),  # nobody groups thousands so
        ("smoker", "YES", True),
        ("smoker", "0", False),
        ("colour", "RED", "red"),
        ("colour", " blue", "Blue"),
    ],
)
def test_values_are_read_as_meant(column: str, text: str, value: object) -> None:
    read = fit_encoding(patients()).parse(column, text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("column", "text", "message"),
    [
        ("age", "forty", r"'forty' cannot be used: 'age' takes a number \(40 to 84 in training\)"),
        ("scan", "", r"'' cannot be used: 'scan' takes a number \(0\.5 to 2\.5 in training\)"),
        ("scan", "nan", "takes a number"),
        ("scan", "1e39", "takes a number"),
        ("scan", "1_0", "takes a number"),
        ("scan", "250,000", r"may stand for 250000 or 250\.000; give 'scan' without a comma"),
        ("smoker", "2", "'smoker' takes yes or no"),
        ("colour", "violet", "takes one of 'Blue', 'green', 'red'"),
        ("colours", "red", "there is 'colours', which is no column; did you mean 'colour'"),
    ],
)
def test_what_cannot_be_read_is_explained(column: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_encoding(patients()).parse(column, text)


def test_capitals_tell_categories_apart_where_needed() -> None:
    encoding = fit_encoding(pd.DataFrame({"a": ["Pos", "pos", "neg"]}))
    assert [encoding.parse("a", text) for text in ("Pos", "pos ", "NEG")] == ["Pos", "pos", "neg"]
    with pytest.raises(InputError, match="'POS' may stand for 'Pos', 'pos' of 'a'; type it exactly"):
        encoding.parse("a", "POS")


def test_outside_the_training_range() -> None:
    encoding = fit_encoding(patients(note=[None] * 8, smoker=[True] * 8))
    assert [encoding.outside("age", value) for value in (39.9, 40, 84, 85, NAN)] == [
        True,
        False,
        False,
        True,
        True,
    ]
    assert [encoding.outside("colour", value) for value in ("red", "Red")] == [False, True]
    assert [encoding.outside("smoker", value) for value in (True, False)] == [False, True]
    assert encoding.outside("note", 1.0)


def test_prices_for_anything_else_are_ignored_with_one_line() -> None:
    costs = {"scann": 2, "age": "$1", "colour": "3 $", "smoker": 0, "scan": 1e12}
    with pytest.warns(UserWarning, match="costs: 'scann' is no column and is ignored; did you mean 'scan'"):
        encoding = fit_encoding(patients(), costs=costs)
    assert [action.price for action in encoding.actions] == [1, 3, 0, 1e12]
    with pytest.warns(UserWarning, match="costs: 'sick', 'mri' are no columns and are ignored$"):
        encoding = fit_encoding(patients(), costs={"sick": 2, "mri": 3, "age": 4}, default_cost=0.5)
    assert [action.price for action in encoding.actions] == [4, 0.5, 0.5, 0.5]


def test_a_default_alone_is_the_price_of_everything() -> None:
    assert [action.price for action in fit_encoding(patients(), default_cost=2).actions] == [2] * 4


def test_columns_that_are_set_aside_need_not_come_and_are_not_read() -> None:
    table = patients(note=["?"] * 8)[["note", "age", "colour", "smoker", "scan"]]
    encoding = fit_encoding(
        table, aside={"note": "a note", "scan": "broken"}, costs={"age": 1, "colour": 2, "smoker": 3}
    )
    assert encoding.table_columns == ("note", "age", "colour", "smoker", "scan")
    assert encoding.action_names == ("age", "colour", "smoker")
    assert [(each.name, each.place, each.reason) for each in encoding.aside] == [
        ("note", 0, "a note"),
        ("scan", 4, "broken"),
    ]
    wanted = encoding.transform(table)
    same(encoding.transform(table.drop(columns=["note", "scan"])), wanted)
    same(encoding.transform(table.to_numpy(object)), wanted)  # by position, with all columns
    assert Encoding.from_json(json.loads(json.dumps(encoding.to_json()))) == encoding
    with pytest.raises(InputError, match="X has 3 features, but Encoding is expecting 5"):
        encoding.transform(np.ones((2, 3)))
    with pytest.raises(InputError, match=r"no column can be used \('age': gone\)"):
        fit_encoding(patients()[["age"]], aside={"age": "gone"})
