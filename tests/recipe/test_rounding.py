"""The number of threads and the options of XLA, against what the runtime makes of them."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from ascertain.recipe._rounding import numeric_options, usable_cores

# Counts the threads of a process that has just begun; their name is XLA's.
COUNT = """
import jax, os
from pathlib import Path
from ascertain.recipe._rounding import usable_cores
jax.numpy.zeros(3).block_until_ready()
names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
print(names.count("tf_XLAEigen"), usable_cores())
"""


def test_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NPROC", "PJRT_NPROC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 3, 5})
    assert usable_cores() == 3
    monkeypatch.setattr("jax.local_device_count", lambda: 4)
    assert usable_cores() == 4


# Read off the threads of processes with these variables, by jaxlib 0.10.2.
@pytest.mark.parametrize(
    ("text", "threads"),
    [("5", 5), ("+5", 5), (" 5", 5), ("5 ", 5), ("05", 5), ("0" * 5000 + "5", 5), ("0", 1), ("-3", 1)]
    + [(text, 3) for text in ("", "5x", "0x5", "5.0", "+-5", "- 5", "1_0", "1e1", "99999999999", "9" * 5000)]
    + [("5\N{NO-BREAK SPACE}", 3), ("\N{ARABIC-INDIC DIGIT FIVE}", 3)],
)
def test_variables_are_read_as_xla_reads_them(
    text: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 3, 5})
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    monkeypatch.setenv("NPROC", text)
    assert usable_cores() == threads
    monkeypatch.setenv("NPROC", "3")
    monkeypatch.setenv("PJRT_NPROC", text)
    assert usable_cores() == threads


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists the threads of a process")
@pytest.mark.parametrize(
    "variables",
    [
        {"NPROC": "2", "PJRT_NPROC": "1"},
        {"NPROC": "4", "PJRT_NPROC": "4x"},
        {"NPROC": "-1"},
        {"NPROC": "2", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"},
        {"NPROC": "2", "JAX_NUM_CPU_DEVICES": "3"},
    ],
)
def test_there_are_as_many_threads_as_said(variables: dict[str, str]) -> None:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "", **variables}
    done = subprocess.run([sys.executable, "-c", COUNT], env=environment, stdout=subprocess.PIPE, check=True)
    there, said = done.stdout.split()
    assert there == said


def test_options_are_those_that_change_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XLA_FLAGS", "")
    usual = numeric_options().split()
    assert usual == sorted(usual)
    assert {"jax_enable_x64=False", "jax_default_matmul_precision=None"} <= set(usual)
    flags = """--xla_b=1 --xla_dump_to='a --xla_c' --xla_a --xla_log_all=it's --xla_b=2 --xla_d="4" """
    file = tmp_path / "flags"
    file.write_text(flags)
    for variable in (flags, f"  {flags}", str(file)):
        monkeypatch.setenv("XLA_FLAGS", variable)
        assert set(numeric_options().split()) - set(usual) == {"xla_a=true", "xla_b=2", "xla_d=4"}


def test_settings_of_jax_are_among_the_options() -> None:
    before = jax.config.values["jax_default_matmul_precision"]
    try:
        jax.config.update("jax_default_matmul_precision", "highest")
        assert "jax_default_matmul_precision=highest" in numeric_options().split()
    finally:
        jax.config.update("jax_default_matmul_precision", before)
