"""When the device of a run was busy, and what it waited for otherwise.

Every run writes one file into the folder `timelines` of its store. Times are in seconds since the run began.
"""

import json
import math
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ascertain._core.files import replacing
from ascertain._core.json import plain_json
from ascertain.errors import StoreError
from ascertain.study._runners import Turn

FOLDER = "timelines"
_YEAR_9999 = 253_370_764_800  # seconds since 1970; later times cannot be written


class Timeline:
    """Notes when a run waits for programs; `write` adds when the device was busy."""

    def __init__(self, folder: Path, device: str):
        self._began, self._start = time.time(), time.perf_counter()
        self._device, self._waits = device, list[tuple[float, float]]()
        self._since: float | None = None  # when the run began to wait for a program
        self._path = folder / FOLDER / f"{self._began:.3f}-{platform.node()}-{os.getpid()}.json"

    def lacks_program(self, lacking: bool) -> None:
        """Note whether there are jobs, ready to be computed, whose program is not compiled."""
        now = time.perf_counter()
        if lacking and self._since is None:
            self._since = now
        elif not lacking and self._since is not None:
            self._waits.append((self._since, now))
            self._since = None

    def write(self, turns: Sequence[Turn]) -> None:
        """Write what happened so far; nothing if the device is not this process's."""
        if not turns:
            return
        now = time.perf_counter()
        waits = self._waits if self._since is None else [*self._waits, (self._since, now)]
        content = {
            "began": self._began,
            "host": platform.node(),
            "device": self._device,
            "seconds": now - self._start,
            "busy": [[self._after(turn.start), self._after(turn.end), turn.work] for turn in turns],
            "lacking_programs": [[self._after(start), self._after(end)] for start, end in waits],
        }
        self._path.parent.mkdir(exist_ok=True)
        with replacing(self._path) as temporary:
            temporary.write_text(json.dumps(content))

    def _after(self, moment: float) -> float:
        return round(moment - self._start, 3)


class Shares(NamedTuple):
    """How a device spent the seconds of a run."""

    began: float  # seconds since 1970
    host: str
    device: str
    seconds: float
    busy: float
    waiting: float  # for a program to be traced and compiled, while jobs were ready for it
    idle: float  # neither: data are read, results are written, or other runs have what is left
    work: dict[str, float]  # busy seconds by stage and part


def read_timelines(folder: Path) -> list[Shares]:
    """What the devices of all runs of a study did, in the order in which these began."""
    found = []
    for path in sorted((folder / FOLDER).glob("[!.]*.json")):
        try:
            found.append(_shares(plain_json(path.read_bytes())))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise StoreError(f"{path} is not a timeline ({error!r}); delete it") from error
    return sorted(found, key=lambda shares: shares.began)


def _shares(content: Any) -> Shares:
    turns = [(float(start), float(end), str(name)) for start, end, name in content["busy"]]
    busy = _union([(start, end) for start, end, _ in turns])
    lacking = [(float(start), float(end)) for start, end in content["lacking_programs"]]
    either = _union(busy + lacking)
    work: dict[str, float] = {}
    for start, end, name in turns:
        work[name] = work.get(name, 0.0) + end - start
    total, used = float(content["seconds"]), _length(busy)
    waiting = _length(either) - used
    about = (float(content["began"]), str(content["host"]), str(content["device"]))
    if not (total > 0 and 0 <= about[0] < _YEAR_9999 and math.isfinite(used) and math.isfinite(waiting)):
        raise ValueError("its times make no sense")
    return Shares(*about, total, used, waiting, max(0.0, total - used - waiting), work)


def _union(intervals: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Intervals that do not overlap and cover the same."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _length(intervals: list[tuple[float, float]]) -> float:
    return sum(end - start for start, end in intervals)
