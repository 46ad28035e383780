"""Several processes that run one study on one GPU, by NVIDIA's multi-process service (MPS)."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

_MEMORY = 0.84  # of the GPU's, for all processes together
_PIPES = "CUDA_MPS_PIPE_DIRECTORY"


def run_in_processes(count: int, arguments: list[str], datasets: Sequence[str]) -> int:
    """Run the command line with these arguments in several processes at once; the worst exit status.

    They share the work through the study's folder. Each begins with datasets of its own, since each has to
    compile what it runs. The first one shows its progress; all show errors. This process does not use the
    GPU, so that its memory is theirs.
    """
    folder = Path(os.environ.get(_PIPES, "/tmp/nvidia-mps"))
    if not (folder / "control").exists():
        raise typer.BadParameter(
            "start NVIDIA's multi-process service first (nvidia-cuda-mps-control -d), or leave this out: "
            f"processes share a GPU well only through it, and there is no {folder / 'control'}",
            param_hint="--processes",
        )
    environment = {**os.environ, "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{_MEMORY / count:.2f}"}
    command = [sys.executable, "-m", "ascertain", *without_option(arguments)]
    started = []
    for number, own in enumerate(shares(datasets, count)):
        shown = subprocess.DEVNULL if number else None
        started.append(subprocess.Popen([*command, "--first", ",".join(own)], env=environment, stdout=shown))
    try:
        return max(process.wait() for process in started)
    except KeyboardInterrupt:  # which they have got, too
        return max(process.wait() for process in started)


def shares(datasets: Sequence[str], count: int) -> list[Sequence[str]]:
    """The datasets that each of so many processes begins with; they take turns where these are too few."""
    return [datasets[number % len(datasets) :: count] for number in range(count)]


def without_option(arguments: list[str]) -> list[str]:
    """The arguments of a command, less `--processes` and its number."""
    found, skip = [], False
    for argument in arguments:
        if not skip and argument != "--processes" and not argument.startswith("--processes="):
            found.append(argument)
        skip = argument == "--processes"
    return found
