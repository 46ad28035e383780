"""Large tables from Parquet files: the same rows as pandas reads, in shares that are read one by one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ascertain import InputError
from ascertain.tables import read_shards

SCRIPT = Path(__file__).with_name("reading_shards.py")
ROWS, FILES, COLUMNS = 1003, 3, ("iron", "smoker", "age")


def frame(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    iron = np.where(rng.random(rows) < 0.3, np.nan, rng.normal(90, 20, rows))
    return pd.DataFrame(
        {
            "iron": iron,
            "smoker": pd.array(rng.random(rows) < 0.2, dtype="boolean"),
            "age": pd.array(rng.integers(20, 90, rows), dtype="Int64"),
            "sick": np.where(rng.random(rows) < 0.4, "yes", "no"),
        }
    )


def write(folder: Path, table: pd.DataFrame, group: int = 100) -> None:
    for place, part in enumerate(np.array_split(np.arange(len(table)), FILES)):
        rows = pa.Table.from_pandas(table.iloc[part], preserve_index=False)
        pq.write_table(rows, folder / f"{place}.parquet", row_group_size=group)


def test_the_rows_are_those_of_the_files(tmp_path: Path) -> None:
    table = frame()
    table.loc[5, "age"] = pd.NA
    write(tmp_path, table)
    found = read_shards(tmp_path, target="sick")
    rows = found.rows.whole()
    assert found.columns == COLUMNS
    assert found.classes == ("no", "yes")
    np.testing.assert_array_equal(rows.y, table["sick"] == "yes")
    np.testing.assert_array_equal(rows.available, table[[*COLUMNS]].notna())
    values = table[[*COLUMNS]].to_numpy(float, na_value=np.nan)
    expected = (values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)
    # Mean and deviation are rounded to a thousandth of a deviation.
    np.testing.assert_allclose(np.where(rows.available, rows.x, np.nan), expected, atol=5e-3)
    assert len(np.unique(rows.ids)) == ROWS


def test_validation_rows_take_columns_classes_and_scale(tmp_path: Path) -> None:
    write(tmp_path, frame())
    train = read_shards(tmp_path, target="sick", columns=["age", "iron"])
    other = frame(1, 50)
    other.loc[:, "sick"] = "yes"  # not even the classes are all there
    (tmp_path / "valid").mkdir()
    write(tmp_path / "valid", other)
    valid = read_shards(tmp_path / "valid", target="sick", like=train)
    assert valid.classes == ("no", "yes")
    encoded = train.encode(other)
    np.testing.assert_allclose(valid.rows.whole().x, encoded.x, atol=1e-5)
    np.testing.assert_array_equal(valid.rows.whole().y, encoded.y)


def test_a_pattern_and_a_list_of_files_are_read_in_order(tmp_path: Path) -> None:
    table = frame()
    write(tmp_path, table)
    by_pattern = read_shards(f"{tmp_path}/[01].parquet", target="sick")
    by_list = read_shards([tmp_path / "1.parquet", tmp_path / "0.parquet"], target="sick")
    assert by_pattern.rows.n_rows == by_list.rows.n_rows == 669
    first = by_list.rows.whole().available[:, 0]
    np.testing.assert_array_equal(first[:334], table["iron"].notna()[335:669])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sick": None}, "'sick' is empty in row 40 of 1.parquet"),
        ({"iron": np.inf}, "'iron' of 1.parquet holds inf in row 40"),
        ({"iron": 1e39}, "'iron' of 1.parquet holds 1e\\+39 in row 40"),
    ],
)
def test_a_bad_cell_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    table = frame()
    for name, value in change.items():
        table.loc[335 + 40, name] = value
    write(tmp_path, table)
    with pytest.raises(InputError, match=message):
        read_shards(tmp_path, target="sick")


def test_bad_files_and_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no Parquet file at"):
        read_shards(tmp_path, target="sick")
    write(tmp_path, frame().assign(town="Ulm", never=np.nan))
    with pytest.raises(InputError, match=r"'town' of 0.parquet holds .*string, not numbers; leave it out"):
        read_shards(tmp_path, target="sick")
    with pytest.raises(InputError, match="'never' was never measured"):
        read_shards(tmp_path, target="sick", columns=["age", "never"])
    with pytest.raises(InputError, match=r"no column 'sik'.*'sick'"):
        read_shards(tmp_path, target="sik")
    with pytest.raises(InputError, match="has one class at most"):
        read_shards(tmp_path, target="town", columns=["age"])
    (tmp_path / "3.parquet").write_text("age,sick")
    with pytest.raises(InputError, match=r"3.parquet cannot be read as Parquet"):
        read_shards(tmp_path, target="sick", columns=["age"])


def test_eight_devices_read_a_share_each(tmp_path: Path) -> None:
    """The same numbers as on one device, from each row group once, and no share is the whole table."""
    write(tmp_path, frame(rows=8005), group=500)
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    ran = subprocess.run(
        [sys.executable, SCRIPT, tmp_path],
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["devices"] == 8
    assert found["rows_of_each"] == [1001] * 8  # three of the last one's are padding
    assert found["same_as_on_one"]
    assert found["most_read_at_once"] == 1001
    assert found["groups_read"] <= 18 + 8  # groups on the border of two shares are read for both
