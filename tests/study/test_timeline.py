"""The shares of a device's time, by hand."""

import json
from pathlib import Path

import pytest

from ascertain.errors import StoreError
from ascertain.study._timeline import read_timelines

RUN = {
    "began": 1000.0,
    "host": "here",
    "device": "none",
    "seconds": 20.0,
    "busy": [
        [2, 6, "fit ol"],
        [5, 8, "share"],
        [10, 11, "fit ol"],
    ],  # 2 to 8, though two overlap, and 10 to 11
    "lacking_programs": [[0, 1], [7, 10.5]],  # besides: 0 to 1, and 8 to 10
}


def _write(folder: Path, name: str, content: object) -> None:
    (folder / "timelines").mkdir(exist_ok=True)
    (folder / "timelines" / name).write_text(json.dumps(content))


def test_every_second_is_busy_waiting_or_idle(tmp_path: Path) -> None:
    _write(tmp_path, "b.json", RUN)
    (found,) = read_timelines(tmp_path)
    assert (found.busy, found.waiting, found.idle) == (7, 3, 10)
    assert found.work == {"fit ol": 5, "share": 3}


def test_runs_come_in_their_order(tmp_path: Path) -> None:
    _write(tmp_path, "a.json", RUN)
    _write(tmp_path, "b.json", {**RUN, "began": 10.0})
    assert [run.began for run in read_timelines(tmp_path)] == [10, 1000]


@pytest.mark.parametrize(
    "content",
    [
        {"began": 1},
        [],
        {**RUN, "seconds": 0},
        {**RUN, "seconds": float("nan")},
        {**RUN, "began": 1e300},
        {**RUN, "began": 10**400},
        {**RUN, "busy": [["a", 6, "b"]]},
        {**RUN, "busy": [[0, 1e308, "a"], [-1e308, 0, "b"]], "seconds": 1},
    ],
)
def test_a_file_that_is_no_timeline_is_named(content: object, tmp_path: Path) -> None:
    _write(tmp_path, "a.json", content)
    with pytest.raises(StoreError, match=r"a\.json"):
        read_timelines(tmp_path)


def test_a_timeline_that_is_nested_too_deeply_is_named(tmp_path: Path) -> None:
    _write(tmp_path, "a.json", RUN)
    (tmp_path / "timelines" / "a.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match=r"a\.json"):
        read_timelines(tmp_path)
