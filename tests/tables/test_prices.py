"""Price lists and panels as people write them."""

from pathlib import Path

import pytest

from ascertain import InputError
from ascertain.tables._prices import read_panels, read_prices


def write(folder: Path, text: str, name: str = "list.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "ecg,15.5\nage,0\n",
        "name,cost\necg,15.5\nage,0\n",
        "feature,cost_cad\necg,15.50\nage,0.00\n",
        "cost,name\n15.5,ecg\n0,age\n",
        "test;code;price\necg;7;15.5\nage;8;0\n",
        "\ufeffname, cost\necg, 15.5\n\nage, 0\n",
    ],
)
def test_every_common_layout_gives_the_same_prices(tmp_path: Path, text: str) -> None:
    assert read_prices(write(tmp_path, text)) == {"ecg": 15.5, "age": 0.0}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        *(("$1", 1), ("€ 3", 3), ("1,50 EUR", 1.5), ("1.50", 1.5), ("1,5", 1.5), ("0,125", 0.125)),
        *(("1.234,50", 1234.5), ("1,234.50", 1234.5), ("$1,234,567", 1234567), ("1.234.567,5 kr", 1234567.5)),
        *(("1 234,50 zł", 1234.5), ("1\u202f234", 1234), ("CHF 1'234.50", 1234.5), ("12,-", 12)),
        *(("12.\N{EN DASH} Fr.", 12), ("US$ 5", 5), ("1e3", 1000), ("1e12", 1e12), ("0", 0), ("-0", 0)),
        *(("1234,567", 1234.567), ("5.", 5), (".5", 0.5)),
    ],
)
def test_amounts_as_people_write_them(tmp_path: Path, text: str, amount: float) -> None:
    assert read_prices(write(tmp_path, f"ecg;{text}\n")) == {"ecg": amount}
    assert read_prices(write(tmp_path, f'name,cost\necg,"{text}"\n')) == {"ecg": amount}


def test_what_may_be_thousands_is_read_as_the_other_amounts_are_written(tmp_path: Path) -> None:
    assert read_prices(write(tmp_path, "a;1.234\nb;1,50\n")) == {"a": 1234, "b": 1.5}
    assert read_prices(write(tmp_path, "a;1.234\nb;1.50\n")) == {"a": 1.234, "b": 1.5}
    assert read_prices(write(tmp_path, "a;1,234\nb;2.345,10\n")) == {"a": 1.234, "b": 2345.1}
    assert read_prices(write(tmp_path, "a,1.234\nb,2\n")) == {"a": 1.234, "b": 2}


@pytest.mark.parametrize(
    "text", ["5k", "50¢", "2 Mio", "5 %", "1.2.3", "12,34,567", "EUR", "1 2", "3.50p", "five"]
)
def test_what_is_no_amount_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="no number"):
        read_prices(write(tmp_path, f"name;cost\necg;{text}\n"))


def test_an_empty_price_is_none(tmp_path: Path) -> None:
    assert read_prices(write(tmp_path, "name,cost\necg,1\nage,\n")) == {"ecg": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ecg,dear\nage,1\n", "line 1: the cost of 'ecg' is 'dear', no number; a first line of titles must"),
        ("ecg,1\nage,cheap\n", "list.csv, line 2: the cost of 'age' is 'cheap', no number"),
        ("name,cost\necg,1\nage,-2\n", "list.csv, line 3: the cost of 'age' is -2; costs are finite"),
        ("ecg,inf\nage,1\n", "the cost of 'ecg' is inf"),
        ("ecg,1\nage,2\necg,3\n", "line 3: 'ecg' has a price already, on line 1"),
        ("ecg,1\nage,nan\n", "list.csv, line 2: the cost of 'age' is nan; costs are finite"),
        ("ecg;1\nage;($5)\n", "line 2: the cost of 'age' is ($5); costs are finite and not negative"),
        ("ecg,1,50\nage,2,50\n", "line 1: 3 cells where 2 belong; put one that has a ',' into quotes"),
        ("name,cost\necg,1,50 EUR\n", "line 2: 3 cells where 2 belong"),
        ("ecg;1,234\nage;2\n", "line 1: the cost of 'ecg' is '1,234', which may stand for 1234 or 1.234"),
        ("ecg;1.234\nage;1,5\nx;2.5\n", "line 1: the cost of 'ecg' is '1.234', which may stand for"),
        ("ecg,$1\nage,2 €\n", "line 1: the cost of 'ecg' is '$1', and list.csv, line 2"),
        ("ecg,1\nage\n", "line 2: a name and a cost are needed, got 'age'"),
        ("name,code,euro\necg,1,2\n", "needs columns called 'name' and 'cost'"),
        ("name,cost\n", "holds no prices"),
    ],
)
def test_a_bad_price_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_prices(write(tmp_path, text))
    assert message in str(caught.value)


def test_panels_from_csv_and_json(tmp_path: Path) -> None:
    wanted = {"blood": ["iron", "TIBC"], "pressure": ["high"]}
    csv = "column,group\niron,blood\nhigh,pressure\nTIBC,blood\n"
    assert read_panels(write(tmp_path, csv)) == wanted
    assert read_panels(write(tmp_path, csv.partition("\n")[2])) == wanted
    json = '{"blood": ["iron", "TIBC"], "pressure": ["high"]}'
    assert read_panels(write(tmp_path, json, "list.json")) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [("[1", "is not JSON"), ("[1]", "must map groups"), ('{"a": "b"}', "the group 'a' must list names")],
)
def test_bad_panels_are_explained(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_panels(write(tmp_path, text, "list.json"))
    assert message in str(caught.value)


def test_a_list_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_prices(tmp_path / "prices.csv")
