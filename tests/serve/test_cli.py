"""The command `serve`, as a process that answers and ends, and its refusals."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ascertain.cli._serve import limits_for
from tests.cli.test_app import ascertain_command, run
from tests.serve.cases import Client

# The command itself, with an advisor that needs no training in place of the saved one.
_UNTRAINED = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from types import SimpleNamespace
from ascertain.cli import main
from ascertain.estimator._classifier import AcquisitionClassifier
from tests.serve.cases import make_advisor
AcquisitionClassifier.load = lambda folder: SimpleNamespace(advisor_=make_advisor())
main()
"""


@contextmanager
def started(command: list[str]) -> Iterator[tuple[subprocess.Popen[str], Client, str]]:
    """Start a server and wait until it listens; also yields what it printed."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            found = re.search(r":(\d+) — Ctrl\+C ends it", line)
            assert found, (line, server.poll())
            yield server, Client(int(found[1])), line
        finally:
            server.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_it_answers_and_ends_on_a_signal(number: signal.Signals) -> None:
    root = str(Path(__file__).parents[2])
    options = ["serve", "patients", "--port", "0", "--purpose", "For a test."]
    with started([sys.executable, "-c", _UNTRAINED, root, *options]) as (server, client, line):
        assert line.startswith("Listening at http://127.0.0.1:")
        model = client.send("GET", "/api/model").json()
        assert model["title"] == "patients"
        assert model["purpose"].startswith("For a test. It says which of 5 measurements")
        assert client.advise({"entries": [{"values": {"age": 33.33}}]}).status == 200
        with socket.create_connection(("127.0.0.1", client.port)):  # which nobody closes
            server.send_signal(number)
            out, err = server.communicate(timeout=15)
    assert server.returncode == 0
    assert (out, err) == ("", "")  # no log, and nothing of the case


@pytest.mark.slow
def test_a_saved_classifier_is_served(tmp_path: Path) -> None:
    from ascertain import AcquisitionClassifier

    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    model = AcquisitionClassifier(budget=1, effort="low", random_state=0, restorer="hotdeck")
    with pytest.warns(UserWarning, match="will hold the 256 training rows"):
        model.fit(x, x[:, 1] > 0).save(tmp_path / "model")
    command = ascertain_command("serve", str(tmp_path / "model"), "--port", "0")
    with started(command) as (_, client, _):
        found = client.advise({}).json()
        assert found["recommended"] == "x1"
        assert set(found["probabilities"]) == {"False", "True"}
        found = client.advise({"entries": [{"values": {"x1": 2.5}}]}).json()
        assert (found["recommended"], found["why"], found["prediction"]) == (None, "budget", "True")


def error_text(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    return " ".join(shown.replace("│", " ").split())


def test_a_folder_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "serve", str(tmp_path / "none"), "--port", "0") == 2
    assert "none/model.safetensors is missing" in error_text(capsys)


def test_a_port_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert run(monkeypatch, "serve", str(tmp_path), "--port", port) == 2
    assert f"cannot listen at 127.0.0.1, port {port} (Address already in use)" in error_text(capsys)


def test_an_extra_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ascertain.cli._serve.find_spec", lambda name: None)
    assert run(monkeypatch, "serve", str(tmp_path)) == 2
    assert 'starlette and uvicorn must be installed: pip install "ascertain[serve]"' in error_text(capsys)


def test_a_rate_must_be_positive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "serve", str(tmp_path), "--rate", "0") == 2
    assert "0 is not a positive number" in error_text(capsys)


def test_others_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "serve", str(tmp_path / "none"), "--host", "0.0.0.0", "--port", "0") == 2
    assert "Warning: 0.0.0.0 can be reached from other machines, without a password" in error_text(capsys)


def test_help_has_examples(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "serve", "--help") == 0
    shown = capsys.readouterr().out
    assert "ascertain serve model/" in shown
    for option in ("--port", "--host", "--rate", "--allow-host", "--purpose"):
        assert option in shown


def test_rates_and_names_go_with_the_address() -> None:
    here, there = limits_for("127.0.0.1", None, []), limits_for("0.0.0.0", None, ["Advice.Example.org"])
    assert here.rate is None
    assert not here.any_address
    assert there.rate == 10
    assert limits_for("127.0.0.1", 5.0, []).rate == limits_for("0.0.0.0", 5.0, []).rate == 5
    assert there.answers_to("advice.example.org:8000")
    assert there.answers_to("192.168.0.7:8000")
    assert not there.answers_to("example.org")
    assert limits_for("192.168.0.7", None, []).answers_to("192.168.0.7:8000")
    assert not limits_for("192.168.0.7", None, []).answers_to("192.168.0.8:8000")
