"""Dates and times in cells, as days since 1970: of pandas, of Python, or written by people.

Written dates are read as 2021-03-05, 2021/3/5, 5.3.2021, 5/3/2021 or 3/5/2021, and 5 March 2021 or
Mar 5, 2021, each with or without a time of day. Whether the day or the month comes first is learned from the
whole column.
"""

import datetime
import re
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd

from ascertain.errors import InputError

Order = Literal["ymd", "dmy", "mdy"]  # of year, month and day
_EPOCH = datetime.datetime(1970, 1, 1)
_A_DAY = datetime.timedelta(days=1)
_TIME = re.compile(
    r"(?P<date>.*?[0-9])(?:,?[ T]\s*(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:\.[0-9]+)?)?"
    r"\s*(?P<half>[AaPp][Mm])?\s*(?P<zone>Z|UTC|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_YEAR_FIRST = re.compile(r"([0-9]{4})([-/.])([0-9]{1,2})\2([0-9]{1,2})")
_YEAR_LAST = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2([0-9]{4})")
_DAY_NAME = re.compile(r"([0-9]{1,2})[ .-]{1,2}([A-Za-z]{3,9})\.?[ ,-]{1,2}([0-9]{4})")
_NAME_DAY = re.compile(r"([A-Za-z]{3,9})\.?[ -]([0-9]{1,2}),? ?([0-9]{4})")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def date_shape(text: str) -> str | None:
    """How a date is written, apart from its order of day and month; None for what is no date.

    Examples
    --------
    >>> date_shape("2021-03-05 14:30"), date_shape("5.3.2021"), date_shape("soon")
    ('y-', '.y', None)
    """
    parts = _TIME.fullmatch(text.strip())
    if parts is None:
        return None
    if found := _YEAR_FIRST.fullmatch(parts["date"]):
        return f"y{found[2]}"
    if found := _YEAR_LAST.fullmatch(parts["date"]):
        return f"{found[2]}y"
    named = _DAY_NAME.fullmatch(parts["date"]) or _NAME_DAY.fullmatch(parts["date"])
    return "name" if named and _month(named) else None


def learn_order(name: str, texts: Iterable[str]) -> Order:
    """Find out in which order a column's dates are written; raises where they are mixed or leave it open."""
    shapes: dict[str | None, str] = {}
    largest = {0: (0, ""), 1: (0, "")}  # of the first number and of the second, and where
    for text in texts:
        shape = date_shape(text)
        shapes.setdefault(shape, text)
        if shape is not None and shape.endswith("y"):
            numbers = [int(number) for number in re.findall("[0-9]+", text)[:2]]
            for place, number in enumerate(numbers):
                largest[place] = max(largest[place], (number, text))
    if len(shapes) > 1:
        one, other = list(shapes.values())[:2]
        raise InputError(f"the column {name!r} mixes {one!r} and {other!r}; write all dates as 2021-03-05")
    (shape,) = shapes
    if shape in ("y-", "y/", "y.", "name"):
        return "ymd"
    if largest[0][0] > 12 and largest[1][0] > 12:
        raise InputError(
            f"the column {name!r} mixes {largest[0][1]!r}, where the day comes first, and {largest[1][1]!r}, "
            "where the month does; write all dates as 2021-03-05"
        )
    if shape == ".y":  # with dots, the day comes first wherever people write so
        return "dmy"
    if largest[0][0] <= 12 and largest[1][0] <= 12:
        raise InputError(
            f"the column {name!r} holds dates such as {shapes[shape]!r}, whose day and month cannot be told "
            "apart; write them as 2021-03-05"
        )
    return "dmy" if largest[0][0] > 12 else "mdy"


def days(value: object, order: Order) -> float | None:
    """The days since 1970 of a date, with its time of day as a fraction; None for what is no date.

    Years first are read in any order.

    Examples
    --------
    >>> days("5/3/1970", "dmy"), days("1970-01-02 06:00", "dmy"), days("1970-02-30", "ymd")
    (63.0, 1.25, None)
    """
    moment = _read(value, order) if isinstance(value, str) else _moment(value)
    return None if moment is None else (moment - _EPOCH) / _A_DAY


def day_name(number: float) -> str:
    """Write days since 1970 as a date, with the time of day where it has one."""
    moment = _EPOCH + datetime.timedelta(seconds=round(number * 86400))
    return str(moment.date()) if moment.time() == datetime.time() else moment.isoformat(" ", "minutes")


def is_date(value: object) -> bool:
    """Whether a cell holds a date of Python, NumPy or pandas."""
    return isinstance(value, datetime.date | np.datetime64)


def _moment(value: Any) -> datetime.datetime | None:
    if not is_date(value):
        return None
    moment = pd.Timestamp(value)
    plain = moment if moment.tzinfo is None else moment.tz_convert("UTC").tz_localize(None)
    return plain.to_pydatetime(warn=False)


def _read(text: str, order: Order) -> datetime.datetime | None:
    parts = _TIME.fullmatch(text.strip())
    if parts is None:
        return None
    date = parts["date"]
    if found := _YEAR_FIRST.fullmatch(date):
        year, month, day = found[1], found[3], found[4]
    elif found := _YEAR_LAST.fullmatch(date):
        day, month, year = (
            (found[3], found[1], found[4]) if order == "mdy" else (found[1], found[3], found[4])
        )
    elif found := _DAY_NAME.fullmatch(date) or _NAME_DAY.fullmatch(date):
        year, month, day = (
            found[3],
            str(_month(found)),
            next(each for each in found.groups() if each.isdigit()),
        )
    else:
        return None
    try:
        hour = int(parts["hour"] or 0)
        if parts["half"]:
            hour = hour % 12 + 12 * (parts["half"].lower() == "pm")
        clock = (hour, int(parts["minute"] or 0), int(parts["second"] or 0))
        return datetime.datetime(int(year), int(month), int(day), *clock) - _offset(parts["zone"])
    except (ValueError, OverflowError):  # 30 February
        return None


def _offset(zone: str | None) -> datetime.timedelta:
    if zone is None or zone in ("Z", "UTC"):
        return datetime.timedelta()
    sign = -1 if zone[0] == "-" else 1
    return sign * datetime.timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))


def _month(found: "re.Match[str]") -> int | None:
    """The month that a date names, None if it names none."""
    word = next(each for each in found.groups() if each.isalpha())[:3].lower()
    return 1 + _MONTHS.index(word) if word in _MONTHS else None
