"""Files that cannot be written are refused before anything is read."""

from pathlib import Path

import pytest

from tests.cli.test_app import run


@pytest.mark.parametrize("folder", ["/proc", "/proc/none", "/dev/null"])
@pytest.mark.parametrize(
    ("given", "name"),
    [
        (("recommend", "model", "no_such.csv"), "next.csv"),
        (("evaluate", "model", "no_such.csv"), "scores.parquet"),
        (("diagnose", "no_such.csv", "--target", "sick"), "page.html"),
    ],
)
def test_what_cannot_be_written_is_refused_first(
    given: tuple[str, ...],
    name: str,
    folder: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, *given, "--out", f"{folder}/{name}") == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert f"nothing can be written to {folder}" in shown or f"there is no folder {folder}" in shown
    assert "no_such" not in shown


def test_a_page_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("diagnose", "no_such.csv", "--target", "sick", "--out", str(tmp_path))
    assert run(monkeypatch, *given) == 2
    assert "is a folder; --out names a file" in " ".join(capsys.readouterr().err.replace("│", " ").split())
