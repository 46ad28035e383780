"""Real processes on one store: killed at any moment, or two at once, they leave what one alone would."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ascertain._core.compilation import compiler_options
from ascertain.recipe import _programs as programs
from ascertain.study import read_study, run_study
from ascertain.study._runners import LocalRunner

TOML = """
name = "interrupted"
datasets = ["cube"]
methods = ["random", "sequential"]
restorers = ["hotdeck"]
rates = [0.3, 0.7]
splits = [0, 1, 2, 3]
routes = false

[settings.predictor]
epochs = 1
"""
CELLS = 2 * 4 * (1 + 2 * 2)  # methods, splits, training sets


def _start(folder: Path, out: Path, text: str = TOML) -> subprocess.Popen[bytes]:
    study = folder / "study.toml"
    study.write_text(text)
    command = [
        sys.executable,
        "-m",
        "ascertain",
        "study",
        "run",
        str(study),
        "--out",
        str(out),
        "--width",
        "2",
    ]
    # What has been compiled is kept, however quick that was: a killed run costs only its import.
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _finish(process: subprocess.Popen[bytes]) -> None:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The results of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    (folder / "study.toml").write_text(TOML)
    with pytest.MonkeyPatch.context() as patch:
        # Options of the compiler change how numbers are rounded; other processes have the usual ones.
        patch.setattr(programs, "compiler_options", compiler_options)
        run_study(read_study(folder / "study.toml"), folder / "out", runner=LocalRunner(width=2))
    return (folder / "out" / "results.parquet").read_bytes()


def _kill_once(folder: Path, out: Path, rng: np.random.Generator, text: str) -> bool:
    """Start a run and kill it when it has finished some further jobs; say if it was still running."""
    before = _files(out)
    wanted = before + int(rng.integers(0, 8))
    process = _start(folder, out, text)
    while process.poll() is None and _files(out) < wanted:
        time.sleep(0.005)
    time.sleep(float(rng.uniform(0, 0.2)))
    was_running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return was_running


def _files(out: Path) -> int:
    return sum(1 for part in ("cells", "artefacts") for _ in (out / part).glob("[!.]*"))


def _survives(kills: int, tmp_path: Path, uninterrupted: bytes, text: str = TOML, cells: int = CELLS) -> None:
    rng, out = np.random.default_rng(kills), tmp_path / "out"
    killed = sum(_kill_once(tmp_path, out, rng, text) for _ in range(kills))
    assert killed > 0
    _finish(_start(tmp_path, out, text))
    assert (out / "results.parquet").read_bytes() == uninterrupted
    assert len(list((out / "cells").glob("[!.]*.json"))) == cells
    assert not [path for path in out.rglob(".*") if path.name != ".locks"]  # nothing is left of killed runs


@pytest.mark.slow
def test_eight_killed_runs_lose_nothing(tmp_path: Path, uninterrupted: bytes) -> None:
    _survives(8, tmp_path, uninterrupted)


@pytest.mark.slow
def test_killed_runs_that_choose_a_treatment_lose_nothing(tmp_path: Path) -> None:
    text = TOML.replace("routes", 'treatments = ["restricted", "restored", "auto"]\nroutes')
    whole = tmp_path / "whole"
    whole.mkdir()
    _finish(_start(whole, whole / "out", text))
    results = (whole / "out" / "results.parquet").read_bytes()
    _survives(4, tmp_path, results, text, cells=2 * 4 * 2 * 3)


@pytest.mark.slow
def test_two_runs_share_the_work(tmp_path: Path, uninterrupted: bytes) -> None:
    both = [_start(tmp_path, tmp_path / "out") for _ in range(2)]
    for process in both:
        _finish(process)
    assert (tmp_path / "out" / "results.parquet").read_bytes() == uninterrupted
    assert len(list((tmp_path / "out" / "cells").glob("[!.]*.json"))) == CELLS
