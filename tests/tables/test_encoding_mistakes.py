"""Tables, prices and files that an encoding refuses, and what it says."""

import copy
import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from ascertain import InputError, StoreError
from ascertain.tables._columns import InputTypeError
from ascertain.tables._encoding import Encoding, fit_encoding
from tests.tables.test_encoding import INF, NAN, patients


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"costs": {"scan": 1, "blood": 2}, "groups": {"blood": ["age"]}},
            "the price list lacks 2 of 4 columns: 'colour', 'smoker'; list them,",
        ),
        ({"costs": {}}, "the price list lacks 4 of 4 columns: 'age', 'colour', 'smoker', 'scan'"),
        ({"costs": {"scan": -1}}, "the cost of 'scan' is -1.0; costs are finite and not negative"),
        ({"costs": {"scan": NAN}}, "the cost of 'scan' is nan"),
        ({"costs": {"scan": "-1 EUR"}}, "the cost of 'scan' is -1 EUR; costs are finite and not negative"),
        ({"costs": {"scan": "1,234"}}, "the cost of 'scan' is '1,234', which may stand for 1234 or 1.234"),
        ({"default_cost": -1}, r"the cost of what the price list lacks \(default_cost\) is -1.0"),
        ({"costs": [1, 2, NAN, 4]}, "the cost of 'smoker' is nan"),
        ({"costs": [1, 2, 3, INF]}, "the cost of 'scan' is inf"),
        ({"costs": [1, 2, 3]}, "costs has 3 entries, but 4 are to be priced"),
        ({"costs": {"scan": "cheap"}}, "the cost of 'scan' is 'cheap', no number"),
        ({"costs": 3}, "costs must be a sequence of numbers"),
        ({"groups": {"visit": ["scam"]}}, "the group 'visit' has 'scam', .* did you mean 'scan'"),
        ({"groups": {"a": ["age"], "b": ["age"]}}, "the column 'age' is listed twice, in 'a', 'b'"),
        ({"groups": {"age": ["scan"]}}, "the group 'age' has the name of a column outside it"),
        ({"groups": {"visit": "scan"}}, "the group 'visit' must list its columns, got 'scan'"),
        ({"groups": ["scan"]}, "groups must be a dict by name"),
        ({"known": ["agee"]}, "known has 'agee', which is no column; did you mean 'age'"),
        ({"known": "age"}, "known must list columns, got 'age'"),
        (
            {"known": ["age"], "groups": {"visit": ["age", "scan"]}},
            "'age' is in the group 'visit'; take it out",
        ),
        ({"feature_names": list("abcd")}, "feature_names is for arrays; rename the columns"),
    ],
)
def test_prices_and_panels_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_encoding(patients(), **options)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1, INF, 2, 3] * 2, "the column 'new' holds inf in row 1; write NaN"),
        ([1, 2, 1e39, 3] * 2, r"the column 'new' holds 1e\+39 in row 2"),
        ([1, 10**400, 2, 3] * 2, "the column 'new' holds inf in row 1"),
        ([1, 2j, 3, 4] * 2, "Complex data not supported: give the parts of 'new'"),
        (pd.timedelta_range("1 day", periods=8), "'new' has the type timedelta64.*, which cannot be used"),
        ([datetime.time(12)] * 8, "the column 'new' holds a time in row 0"),
        ([datetime.date(2020, 1, 1), 3] * 4, r"the column 'new' mixes dates \(row 0\) and numbers \(row 1\)"),
        (
            ["2020-01-31", "31.1.2020"] * 4,
            "'new' mixes '2020-01-31' and '31.1.2020'; write all dates as 2021",
        ),
        (["31/1/2020", "1/31/2020"] * 4, "mixes '31/1/2020', where the day comes first, and '1/31/2020'"),
        (["3/4/2020", "5/6/2020"] * 4, "dates such as '3/4/2020', whose day and month cannot be told apart"),
        (["2020-01-31", "2020-02-30"] * 4, "the column 'new' holds '2020-02-30' in row 1, which is no date"),
        ([None, 1, [2], 3] * 2, "the column 'new' holds a list in row 2"),
        ([None, 1, np.ones(2), 3] * 2, "the column 'new' holds a ndarray in row 2"),
        ([1, "a", 2, 3] * 2, r"the column 'new' mixes numbers \(row 0\) and text \(row 1\)"),
        (pd.Categorical([1, "1", None, 1] * 2), "two features would be called 'new=1'"),
    ],
)
def test_columns_that_cannot_be_used(column: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_encoding(patients(new=column))


def test_too_many_categories() -> None:
    with pytest.raises(InputError, match="'name' holds 201 different texts or categories, more than 200"):
        fit_encoding(pd.DataFrame({"name": [f"p{i}" for i in range(201)]}))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.ones(3), r"Expected a 2D array .* shape \(3,\)\. Reshape your data"),
        (pl.Series([1, 2]), "Reshape your data"),
        (np.ones((0, 3)), r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required"),
        (np.ones((12, 0)), r"0 feature\(s\) \(shape=\(12, 0\)\) while a minimum of 1 is required"),
        (pd.DataFrame({"a": []}), r"0 sample\(s\)"),
        (np.ones((2, 2)) * 1j, "Complex data not supported"),
        (np.array([["2020-01-01"]], "M8[ns]"), r"X has the type datetime64\[ns\]"),
        ([[1, 2], [3]], "X is not a table"),
        (scipy.sparse.csr_matrix(np.eye(2)), "X is sparse"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are called 'a'"),
    ],
)
def test_what_is_no_table(table: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_encoding(table)


def test_an_object_that_is_no_cell_is_also_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"argument must be .* string.* number"):  # as scikit-learn asks
        fit_encoding(np.array([[{"foo": "bar"}, 1]], object))
    with pytest.raises(InputTypeError, match="the column 'x0' holds a dict in row 0"):
        fit_encoding(np.ones((1, 2))).transform(np.array([[{"foo": "bar"}, 1]], object))


@pytest.mark.parametrize("copies", [1, 40])  # read cell by cell, and column by column
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seen": ["2021-05-01", "later"] * 4}, "the column 'seen' holds 'later' in row 1, which is no date"),
        ({"seen": [1.5] * 8}, r"the column 'seen' holds 1\.5 in row 0, which is no date"),
        (
            {"colour": ["red", "violet"] * 4},
            r"'colour' holds 'violet' in row 1.*takes one of 'Blue', 'green', 'red'",
        ),
        ({"age": ["old"] * 8}, "the column 'age' holds the text 'old' in row 0; it takes numbers"),
        ({"age": [40, INF] * 4}, "the column 'age' holds inf in row 1"),
        ({"age": pd.date_range("2020-01-01", periods=8)}, "the column 'age' holds a Timestamp in row 0"),
        ({"age": [1j] * 8}, "the column 'age' holds a complex in row 0"),
        (
            {"smoker": [0, 0.5] * 4},
            r"'smoker' holds 0\.5 in row 1, but training had true \(1\) and false \(0\)",
        ),
    ],
)
def test_rows_that_do_not_fit_the_training_table(changed: dict[str, Any], message: str, copies: int) -> None:
    later = pd.concat([patients(**({"seen": [None] * 8} | changed))] * copies)  # with an index of no meaning
    with pytest.raises(InputError, match=message):
        fit_encoding(patients(seen=pd.date_range("2020-01-01", periods=8))).transform(later)


def test_unseen_categories_may_count_as_not_measured() -> None:
    encoding = fit_encoding(patients())
    x, available = encoding.transform(patients(colour=["violet"] * 8), unseen="missing")
    assert not available[:, 1:4].any()
    assert not x[:, 1:4].any()
    assert available[:, 0].all()


def test_columns_must_be_those_of_training() -> None:
    encoding = fit_encoding(patients())
    lacking = r"names seen at fit time, yet now missing:\n- age\n- scan\n"
    with pytest.raises(InputError, match=lacking):
        encoding.transform(patients().drop(columns=["age", "scan"]))
    mixed = patients(extra=1)[["scan", "extra", "colour", "age", "smoker"]]  # other columns, another order
    for theirs, ours in zip(encoding.transform(mixed), encoding.transform(patients()), strict=True):
        np.testing.assert_array_equal(theirs, ours)
    twice = pd.concat([patients(), patients()[["age"]]], axis=1)
    with pytest.raises(InputError, match="two columns are called 'age'"):
        encoding.transform(twice)
    for unnamed in (np.ones((2, 3)), pd.DataFrame(np.ones((2, 3)))):
        with pytest.raises(ValueError, match=r"X has 3 features, but \w+ is expecting 4 features as input"):
            fit_encoding(np.ones((2, 4))).transform(unnamed)


def test_features_of_another_shape_cannot_be_turned_back() -> None:
    with pytest.raises(InputError, match="must have 6 features"):
        fit_encoding(patients()).inverse(np.ones((2, 5)), np.ones((2, 5), bool))


# Files that were changed


def _set(*path: Any, to: object) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        for key in path[:-1]:
            content = content[key]
        content[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("more", to=1), "more: Extra inputs are not permitted"),
        (_set("columns", 0, "more", to=1), "more: Unexpected keyword argument"),
        (lambda content: content.pop("known"), "known: Field required"),
        (_set("named", to=1), "named: Input should be a valid boolean"),
        (_set("columns", 0, "kind", to="dates"), "kind: Input should be"),
        (_set("columns", 0, "kind", to="date"), "the parts of the column 'age' do not fit together"),
        (_set("aside", to=[{"name": "x", "place": 9, "reason": ""}]), "the places of columns"),
        (_set("columns", 0, "mean", to=["5"]), "mean.0: Input should be a valid number"),
        (_set("columns", 0, "mean", to=[NAN]), "not JSON compliant"),
        (_set("columns", 0, "mean", to=[1.0, 2.0]), "the parts of the column 'age' do not fit together"),
        (_set("columns", 0, "scale", to=[0.0]), "the parts of the column 'age'"),
        (_set("columns", 0, "low", to=99.0), "the parts of the column 'age'"),
        (_set("columns", 0, "low", to=None), "the parts of the column 'age'"),
        (_set("columns", 1, "categories", to=None), "the parts of the column 'colour'"),
        (_set("columns", 1, "categories", to=["a", "a", "b"]), "two features would be called 'colour=a'"),
        (_set("columns", 0, "name", to="scan"), "two columns would be called 'scan'"),
        (_set("actions", 0, "columns", to=["colours"]), "each column must belong to one action, or be known"),
        (_set("actions", 0, "name", to="scan"), "two actions would be called 'scan'"),
        (_set("actions", 0, "price", to=-1.0), "the cost of 'colour' is -1.0"),
        (_set("known", to=["agee"]), "each column must belong to one action, or be known"),
        (_set("known", to=["age", "age"]), "each column must belong to one action, or be known"),
        (_set("flagged", to=["colour"]), "only known columns can be flagged"),
        (_set("columns", 0, "kind", to={1, 2}), "not JSON serializable"),
    ],
)
def test_changed_files_are_refused(change: Callable[[Any], None], message: str) -> None:
    content = copy.deepcopy(fit_encoding(patients(), known=["age"]).to_json())
    change(content)
    with pytest.raises(StoreError, match=message):
        Encoding.from_json(content)


def test_an_encoding_is_a_mapping_in_json() -> None:
    with pytest.raises(StoreError, match="Input should be an object"):
        Encoding.from_json([])
