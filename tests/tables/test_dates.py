"""Dates in tables: read as days, whoever wrote them."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest

from ascertain.tables._dates import Order, day_name, days
from ascertain.tables._encoding import Encoding, fit_encoding
from ascertain.tables._usable import set_aside

START = datetime.datetime(2019, 12, 30, 23, 45)
MOMENTS = [START + datetime.timedelta(days=17.25 * step) for step in range(60)]


@pytest.mark.parametrize(
    ("written", "order"),
    [
        ("%Y-%m-%d", "ymd"),
        ("%Y-%m-%dT%H:%M:%S", "ymd"),
        ("%Y-%m-%d %H:%M", "dmy"),  # years first are read whatever the order
        ("%Y/%m/%d %H:%M", "ymd"),
        ("%d.%m.%Y %H:%M", "dmy"),
        ("%d/%m/%Y", "dmy"),
        ("%m/%d/%Y %I:%M %p", "mdy"),
        ("%d-%m-%Y", "dmy"),
        ("%d %B %Y", "ymd"),
        ("%d-%b-%Y", "ymd"),
        ("%b %d, %Y", "ymd"),
    ],
)
def test_written_dates_are_read_as_python_reads_them(written: str, order: Order) -> None:
    texts = [moment.strftime(written) for moment in MOMENTS]
    wanted = [datetime.datetime.strptime(text, written) for text in texts]
    epoch = datetime.datetime(1970, 1, 1)
    assert [days(text, order) for text in texts] == [
        (moment - epoch).total_seconds() / 86400 for moment in wanted
    ]
    encoding = fit_encoding(pd.DataFrame({"seen": texts, "x": range(60)}))
    assert encoding.columns[0].kind == "date"
    read = encoding.values(pd.DataFrame({"seen": texts, "x": 0}))[:, 0]
    assert read.tolist() == [days(each, "ymd") for each in wanted]
    assert encoding.columns[0].order == ("ymd" if written.startswith("%Y") else order)


@pytest.mark.parametrize(
    ("text", "same"),
    [("2021-03-05T14:30:00Z", "2021-03-05 14:30"), ("2021-03-05 14:30+02:00", "2021-03-05 12:30")],
)
def test_time_zones_are_brought_to_one(text: str, same: str) -> None:
    assert days(text, "ymd") == days(same, "ymd")
    assert days(pd.Timestamp(text), "ymd") == days(same, "ymd")
    assert day_name(days(same, "ymd") or 0.0) == same


def test_month_and_hour_are_features_where_they_are_of_use() -> None:
    table = pd.DataFrame(
        {
            "day": pd.date_range("2021-03-01", periods=40),  # within a year, at midnight
            "years": pd.date_range("2019-01-31", periods=40, freq="ME"),
            "moment": pd.date_range("2021-03-01", periods=40, freq="6h"),
            "both": [moment.isoformat() for moment in MOMENTS[:40]],
            "x": np.arange(40) * 1.5,
        }
    )
    table.loc[3, ["day", "both"]] = None
    encoding = fit_encoding(table, groups={"when": ["years", "moment"]})
    assert encoding.feature_names == (
        *("day", "years", "years (month)", "moment", "moment (hour)"),
        *("both", "both (month)", "both (hour)", "x"),
    )
    assert encoding.action_names == ("day", "when", "both", "x")
    values = encoding.values(table)
    np.testing.assert_array_equal(values[:, 2], table["years"].dt.month)
    np.testing.assert_array_equal(values[:, 4], table["moment"].dt.hour)
    there = np.arange(40) != 3
    np.testing.assert_array_equal(values[there, 6], [each.month for each in np.array(MOMENTS[:40])[there]])
    assert np.isnan(values[3, [0, 5, 6, 7]]).all()
    x, available = encoding.transform(table)
    assert not available[3, [0, 5, 6, 7]].any()
    back = encoding.inverse(x, available)
    moved = (back["years"] - table["years"]).abs().max()
    assert moved < pd.Timedelta(minutes=10)  # what single precision leaves of 40 months
    assert back["day"].isna().tolist() == table["day"].isna().tolist()
    restored = Encoding.from_json(json.loads(json.dumps(encoding.to_json())))
    assert restored == encoding


def test_a_person_types_a_date() -> None:
    column = fit_encoding(pd.DataFrame({"seen": ["31.12.2020", "1.2.2021"] * 4, "x": range(8)})).columns[0]
    assert column.allowed == "a date (2020-12-31 to 2021-02-01 in training)"
    assert column.parse("5.1.2021") == column.parse(" 2021-01-05") == "2021-01-05"
    assert not column.outside("2021-01-05")
    assert column.outside("2021-02-02")
    with pytest.raises(ValueError, match="'soon' cannot be used: 'seen' takes a date"):
        column.parse("soon")


def test_dates_are_no_identifiers_and_strays_among_them_are_named() -> None:
    texts = [f"{moment:%Y-%m-%d}" for moment in MOMENTS]
    assert not set_aside(pd.DataFrame({"seen": texts}))
    texts[7] = "unknown"
    reasons = set_aside(pd.DataFrame({"seen": texts}), first_row=2)
    assert reasons["seen"].startswith(
        "it holds dates, but in 1 of 60 cells texts: 'unknown' in row 9; if they"
    )
    texts[7] = "5.3.2020"
    assert (
        "mixes '2019-12-30' and '5.3.2020'; write all dates as"
        in set_aside(pd.DataFrame({"seen": texts}))["seen"]
    )
