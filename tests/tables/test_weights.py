"""A column of a table says how much each row counts."""

from pathlib import Path

import numpy as np
import pytest

from ascertain.errors import InputError
from ascertain.tables._reading import read_user_table

ROWS = ["a,b,w,sick", "1,2,0.5,no", "2,,0,yes", "3,1,2,yes", "4,5,1,no", "5,6,1,"]


def written(folder: Path, rows: list[str]) -> Path:
    path = folder / "survey.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_it_is_taken_out_and_rows_of_weight_zero_are_dropped(tmp_path: Path) -> None:
    table = read_user_table(written(tmp_path, ROWS), "sick", weights="w")
    assert list(table.columns) == ["a", "b"]
    assert table.weights is not None
    np.testing.assert_array_equal(table.weights, [0.5, 2.0, 1.0])
    assert table.columns["a"].tolist() == [1, 3, 4]
    assert (table.weighted_by, table.weightless, table.unlabelled) == ("w", 1, 1)


def test_it_goes_with_rows_that_belong_together(tmp_path: Path) -> None:
    table = read_user_table(written(tmp_path, ROWS), "sick", weights="w", rows_of="a")
    assert list(table.columns) == ["b"]
    assert table.instances is not None
    np.testing.assert_array_equal(table.instances, [0, 1, 2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("4,5,1,no", "4,5,-1,no"), "'w' .--weights. holds '-1' in row 5; weights are numbers from 0 on"),
        (("4,5,1,no", "4,5,,no"), "'w' .--weights. is empty in row 5"),
        (("4,5,1,no", "4,5,many,no"), "'w' .--weights. holds 'many' in row 5"),
        (("3,1,2,yes", "3,1,0,yes"), "'w' .--weights. is 0 in all rows of the class 'yes'"),
        (("a,b,w,sick", "a,b,weight,sick"), "no column 'w' to say how much rows count"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    rows = [change[1] if row == change[0] else row for row in ROWS]
    with pytest.raises(InputError, match=message):
        read_user_table(written(tmp_path, rows), "sick", weights="w")


def test_one_column_cannot_be_both(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'w' cannot be both --rows-of and --weights"):
        read_user_table(written(tmp_path, ROWS), "sick", weights="w", rows_of="w")
