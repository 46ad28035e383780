"""Set-ups as people state them: by dicts, in files of their own, and in price lists."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ascertain import datasets
from ascertain.datasets._export import export, write
from ascertain.errors import InputError
from ascertain.tables._encoding import Encoding, fit_encoding
from ascertain.tables._prices import read_prices
from ascertain.tables._setup_files import lists_setups, read_setups

TABLE = pd.DataFrame(
    {name: np.arange(10.0) * (place + 1) for place, name in enumerate(("age", "iron", "tibc", "pee", "ecg"))}
).assign(sick=[False, True] * 5)
COLUMNS = TABLE.drop(columns="sick")
DRAW = {"blood draw": {"cost": 5, "columns": ["iron", "tibc"]}}


def encoded(setup: Any, **changes: Any) -> Encoding:
    return fit_encoding(COLUMNS, costs=dict.fromkeys(COLUMNS, 1.0), setup=setup, **changes)


def test_the_first_test_of_a_draw_pays_for_it() -> None:
    prices = encoded(DRAW).price_list
    assert prices.first.tolist() == [1, 6, 6, 1, 1]
    assert prices.prices(np.array([0, 1, 0, 0, 0], bool)).tolist() == [1, 1, 1, 1, 1]
    assert encoded(DRAW).problem(None, ["no", "yes"]).budget == 10
    assert encoded({"blood draw": (5, ["iron", "tibc"])}) == encoded(DRAW)


def test_a_panel_needs_the_set_ups_of_all_of_its_columns() -> None:
    setup = {**DRAW, "cup": {"cost": 0.5, "columns": ["pee"]}}
    encoding = encoded(setup, groups={"kidney": ["tibc", "pee"]})
    assert dict(zip(encoding.action_names, encoding.price_list.first, strict=True)) == {
        "age": 1,
        "iron": 6,
        "kidney": 7.5,
        "ecg": 1,
    }
    after_iron = encoding.price_list.prices(np.array([False, True, False, False]))
    assert after_iron[2] == 2.5  # only the cup
    by_panel = encoded({"visit": (3, ["kidney"])}, groups={"kidney": ["tibc", "pee"]})
    assert by_panel.setups[0].columns == ("tibc", "pee")


def test_an_encoding_with_set_ups_is_the_same_after_it_was_written() -> None:
    assert Encoding.from_json(encoded(DRAW).to_json()) == encoded(DRAW)
    assert "setups" not in encoded(None).to_json()


def test_columns_that_are_set_aside_need_no_set_up() -> None:
    assert encoded(DRAW, aside={"tibc": ""}).setups[0].columns == ("iron",)
    assert encoded(DRAW, aside={"tibc": "", "iron": ""}).setups == ()


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        (5, "setup must be a dict by name"),
        ({"draw": 5}, "the set-up 'draw' must have a cost and columns"),
        ({"draw": {"cost": 5}}, "must have a cost and columns"),
        ({"draw": (5, [])}, "'draw' must list the columns"),
        ({"draw": (5, "iron")}, "'draw' must list the columns"),
        ({"draw": (-1, ["iron"])}, "the cost of the set-up 'draw' is -1"),
        ({"draw": ("x", ["iron"])}, "the cost of the set-up 'draw' is 'x', no number"),
        ({"draw": ([1], ["iron"])}, "the cost of the set-up 'draw' must be a number"),
        ({"draw": (5, ["sick"])}, "the target 'sick'"),
        ({"draw": (5, ["age"])}, "the known column 'age' is in the set-up 'draw'"),
        ({"a": (5, ["iron"]), "b": (5, ["iron"])}, "'iron' is in two set-ups, 'a' and 'b'"),
        ({"ecg": (5, ["iron"])}, "the set-up 'ecg' has the name of a column"),
    ],
)
def test_bad_set_ups_are_refused(setup: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        encoded(setup, known=["age"], target="sick")


def test_names_of_no_column_are_ignored_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="setup: 'irn' is no column and is ignored; did you mean 'iron'"):
        assert encoded({"draw": ("$5", ["irn", "tibc"])}).setups[0].columns == ("tibc",)


def written(folder: Path, text: str, name: str = "draws.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_lists_tests_with_their_set_ups(tmp_path: Path) -> None:
    path = written(tmp_path, "name,setup,cost\niron,blood draw,5\ntibc,blood draw,\necg,,\n")
    assert read_setups(path) == DRAW
    semicolons = written(tmp_path, "Set-up;Test;Price\nblood draw;iron;5,00 EUR\nblood draw;tibc;\n")
    assert read_setups(semicolons) == DRAW
    by_name = '{"blood draw": {"cost": 5, "columns": ["iron", "tibc"]}}'
    assert read_setups(written(tmp_path, by_name, "draws.json")) == DRAW


def test_a_price_list_may_name_set_ups(tmp_path: Path) -> None:
    prices = written(
        tmp_path,
        "name,cost,setup,setup cost\nage,0.5,,\niron,2,blood draw,5\ntibc,3,blood draw,\necg,9,,\npee,1,,\n",
    )
    assert lists_setups(prices)
    assert read_setups(prices) == DRAW
    assert read_prices(prices) == {"age": 0.5, "iron": 2, "tibc": 3, "ecg": 9, "pee": 1}
    assert not lists_setups(written(tmp_path, "name,cost\niron,2\n", "plain.csv"))
    dataset = datasets.from_frame(TABLE, target="sick", costs=prices)
    assert dataset.problem.price_list.first.tolist() == [0.5, 7, 8, 1, 9]
    assert dataset.budgets == (20.5,)
    assert datasets.describe(dataset)["setups"] == {"blood draw": 5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lists no set-ups"),
        ("name,cost\niron,5\n", "lists no set-ups; its first line must name the columns name,setup,cost"),
        ("setup,cost\nblood,5\n", r"no column for the tests \(name\)"),
        ("name,setup\niron,blood\n", "no column for what a set-up costs"),
        ("name,setup,cost\n,blood,5\n", "line 2: the set-up 'blood' needs the name of a test"),
        ("name,setup,cost\niron,blood,x\n", "line 2: the cost of the set-up 'blood' is 'x', no number"),
        ("name,setup,cost\niron,blood,-2\n", "line 2: the cost of the set-up 'blood' is -2"),
        (
            "name,setup,cost\niron,blood,5\ntibc,blood,6\n",
            "line 3: the cost of the set-up 'blood' is 6, but 5 above",
        ),
        ("name,setup,cost\niron,blood,\n", "the set-up 'blood' has no cost"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_setups(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"), [("[", "is not JSON"), ("[]", "must map set-ups"), ('{"a": 1}', "a cost")]
)
def test_bad_json_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_setups(written(tmp_path, text, "draws.json"))


def test_a_dataset_with_set_ups_can_be_exported_and_read_again(tmp_path: Path) -> None:
    dataset = datasets.from_frame(TABLE, target="sick", costs=dict.fromkeys(COLUMNS, 1.0), setup=DRAW)
    write(export(dataset), tmp_path, "mine")
    again = datasets.from_file(tmp_path / "mine.csv", target="outcome", costs=tmp_path / "prices.csv")
    assert again.problem.price_list.first.tolist() == dataset.problem.price_list.first.tolist()
    assert again.problem.setup_names == ("blood draw",)
