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
    ("text", "message"),
    [
        ("ecg,dear\nage,1\n", "line 1: the cost of 'ecg' is 'dear', no number; a first line of titles must"),
        ("ecg,1\nage,cheap\n", "list.csv, line 2: the cost of 'age' is 'cheap', no number"),
        ("name,cost\necg,1\nage,-2\n", "list.csv, line 3: the cost of 'age' is -2; costs are finite"),
        ("ecg,inf\nage,1\n", "the cost of 'ecg' is inf"),
        ("ecg,1\nage,2\necg,3\n", "line 3: 'ecg' has a price already, on line 1"),
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
