"""Reading a results folder: what is there, what is not, and what is wrong with it."""

from pathlib import Path

import pandas as pd
import pytest

from ascertain import InputError
from ascertain.analysis._results import at_largest_budget, empty_table, read_results
from ascertain.study._records import write_table
from tests.damage import change_a_value

from .made_up import arms, routes, table


def write(folder: Path, rows: list[dict[str, object]], text: str | None = 'protocol = "paper"\n') -> Path:
    table("results", rows).to_parquet(folder / "results.parquet")
    if text is not None:
        (folder / "study.toml").write_text(text)
    return folder


def test_what_is_there_is_read_and_what_is_not_is_empty(tmp_path: Path) -> None:
    rows = arms("cube", "dime", [0.5, 0.7], [0.4, 0.6])
    write(tmp_path, rows, 'name = "mine"\nprotocol = "paper"\n')
    table("routes", routes("cube", [0.8])).to_parquet(tmp_path / "routes.parquet")
    results = read_results(str(tmp_path))
    assert results.study == {"name": "mine", "protocol": "paper"}
    assert results.protocol == "paper"
    assert results.results["score"].tolist() == [0.5, 0.7, 0.4, 0.6]
    assert results.routes["v_static"].tolist() == [0.8]
    for name in ("timings", "acquisitions"):
        frame = getattr(results, name)
        assert frame.empty
        assert list(frame.columns) == list(empty_table(name).columns)
    assert results.metrics == {"cube": "accuracy"}


def test_missing_texts_read_as_not_applicable(tmp_path: Path) -> None:
    frame = table("results", arms("cube", "dime", [0.5], []))
    frame[["mechanism", "restorer", "rate"]] = None
    frame.to_parquet(tmp_path / "results.parquet")
    row = read_results(tmp_path).results.iloc[0]
    assert (row["mechanism"], row["restorer"], row["rate"]) == ("", "", 0.0)


def test_without_a_study_file_the_rows_speak_for_themselves(tmp_path: Path) -> None:
    write(tmp_path, arms("cube", "dime", [0.5], [], protocol="afabench"), None)
    results = read_results(tmp_path)
    assert (results.study, results.protocol) == ({}, "afabench")


def test_only_the_studys_protocol_counts(tmp_path: Path) -> None:
    ours = arms("cube", "dime", [0.5], [])
    stale = arms("cube", "dime", [0.9], [], protocol="afabench")
    assert read_results(write(tmp_path, ours + stale)).results["score"].tolist() == [0.5]
    write(tmp_path, ours + stale, "name = 'mine'\n")
    with pytest.raises(InputError, match="several protocols"):
        read_results(tmp_path)


@pytest.mark.parametrize("name", ["results.parquet", "routes.parquet"])
def test_what_cannot_be_read_is_named_with_the_fix(tmp_path: Path, name: str) -> None:
    write(tmp_path, arms("cube", "dime", [0.5], []))
    (tmp_path / name).write_bytes(b"PAR1 nothing of the kind")
    with pytest.raises(InputError, match=rf"{name} cannot be read.*`ascertain study run`"):
        read_results(tmp_path)


def test_a_score_that_changed_on_disk_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    write_table(table("results", arms("cube", "dime", [0.5, 0.625], [])), path)
    assert read_results(tmp_path).results["score"].tolist() == [0.5, 0.625]
    change_a_value(path, "score")
    assert pd.read_parquet(path)["score"].tolist() != [0.5, 0.625]
    with pytest.raises(InputError, match=r"results.parquet cannot be read.*CRC.*`ascertain study run`"):
        read_results(tmp_path)


def test_a_folder_or_file_or_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere is not a folder"):
        read_results(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"results.parquet does not exist; `ascertain study run`"):
        read_results(tmp_path)
    frame = table("results", arms("cube", "dime", [0.5], []))
    frame.drop(columns=["score", "budget"]).to_parquet(tmp_path / "results.parquet")
    with pytest.raises(InputError, match="lacks the columns 'budget', 'score'"):
        read_results(tmp_path)
    write(tmp_path, [], "name = [")
    with pytest.raises(InputError, match=r"study.toml is not a study file"):
        read_results(tmp_path)


def test_a_cell_twice_is_refused(tmp_path: Path) -> None:
    rows = arms("cube", "dime", [0.5], [])
    write(tmp_path, rows + rows)
    with pytest.raises(InputError, match=r"holds a cell twice.*'dataset': 'cube'"):
        read_results(tmp_path)


def test_the_largest_budget_is_each_datasets_own() -> None:
    frame = pd.DataFrame({"dataset": ["a", "a", "b", "b"], "budget": [3.0, 10.0, 2.5, 1.0]})
    assert at_largest_budget(frame)["budget"].tolist() == [10.0, 2.5]
    assert at_largest_budget(frame.iloc[:0]).empty
