"""What is said of a table's columns, for columns that we made suspicious."""

import numpy as np
import pandas as pd
import pytest

from ascertain.practice.diagnosis._profile import TableProfile, hidden_marker, leaks, profile
from ascertain.tables._reading import UserTable, encode


def table_of(n: int = 400) -> UserTable:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    columns = pd.DataFrame(
        {
            "row": np.arange(n),
            "age": rng.normal(60, 9, n).round(1),
            "discharge": np.where(y == 1, 7.0, 3.0) + rng.normal(0, 0.1, n),
            "blood": np.where(rng.random(n) < 0.2, 0.0, rng.normal(220, 40, n).clip(120)),
            "dose": [str(i % 9) for i in range(n - 2)] + ["n.d.", "n.d."],
            "same": [1.0] * n,
            "autopsy": np.where(y == 1, rng.normal(size=n), np.nan),
            "plain": rng.normal(size=n),
        }
    )
    columns["age again"] = columns["age"]
    columns.loc[5, "plain"] = np.nan
    return UserTable("mine.csv", columns, "died", ("no", "yes"), y, unlabelled=3)


def profile_of(table: UserTable) -> TableProfile:
    panels = {"panel": ["blood", "plain"]}
    encoding, aside = encode(table, costs={"age": 0.5}, groups=panels, known=["age"], default_cost=1)
    x, available = encoding.transform(table.columns.drop(columns=list(aside)))
    return profile(table, encoding, aside, x, available)


def test_suspicious_columns_are_remarked_upon_and_others_are_not() -> None:
    found = profile_of(table_of())
    remarks = {column.name: column.remark for column in found.columns}
    for name, words in {
        "row": "numbers the rows",
        "discharge": "almost perfectly",
        "blood": "0 stands apart",
        "dose": "because of 'n.d.'",
        "same": "always holds 1",
        "autopsy": "only where the target is 'yes'",
        "age again": "the same as 'age'",
    }.items():
        assert words in remarks[name]
        assert any(repr(name) in warning and words in warning for warning in found.warnings)
    assert remarks["age"] == remarks["plain"] == ""
    assert "3 rows have no 'died' and were dropped; 400 are left." in found.warnings


def test_columns_have_their_prices_and_counts() -> None:
    table = table_of()
    by_name = {column.name: column for column in profile_of(table).columns}
    assert by_name["row"].action is None
    assert by_name["age"].known
    assert by_name["blood"].action == "panel"
    assert by_name["blood"].cost == 2.0  # two columns at 1
    assert by_name["plain"].missing == 1 / 400
    assert by_name["dose"].kind == "category"
    assert by_name["dose"].distinct == 10
    assert profile_of(table).classes == {"no": 200, "yes": 200}


@pytest.mark.parametrize(("count", "words"), [(7, "7 rows repeat"), (1, "1 row repeats")])
def test_repeated_rows_are_counted(count: int, words: str) -> None:
    table = table_of()
    twice = pd.concat([table.columns, table.columns.iloc[:count]], ignore_index=True)
    found = profile_of(
        UserTable("mine.csv", twice, "died", table.classes, np.append(table.y, table.y[:count]), 0)
    )
    assert found.duplicates == count
    assert any(each.startswith(f"{words} an earlier one") for each in found.warnings)


def test_rows_without_any_measurement_are_no_repetitions() -> None:
    table = table_of()
    columns = table.columns.copy()
    columns.loc[:9, columns.columns != "age"] = None
    found = profile_of(UserTable("mine.csv", columns, "died", table.classes, table.y, 0))
    assert (found.blank, found.duplicates) == (10, 0)
    assert any(each.startswith("In 10 rows nothing was measured") for each in found.warnings)


def test_a_strong_but_honest_column_does_not_leak() -> None:
    # Two normal distributions three deviations apart: the best rule is right for 93% of either class.
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1000)
    assert not leaks((rng.normal(size=1000) + 3.0 * y)[:, None], y)
    assert leaks((rng.normal(size=1000) + 9.0 * y)[:, None], y)
    assert not leaks(np.zeros((10, 1)), np.arange(10) % 2)  # too few rows to say


def test_ordinary_zeros_are_no_markers() -> None:
    rng = np.random.default_rng(1)
    assert hidden_marker(rng.poisson(2, 500).astype(float)) is None
    assert hidden_marker(np.append(rng.normal(50, 10, 500), [999.0] * 3)) == 999
    assert (
        hidden_marker(np.append(rng.normal(50, 10, 500), [999.0])) is None
    )  # one alone may be a typing error
