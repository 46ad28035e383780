"""A folder for downloads that is not the user's own."""

from pathlib import Path

import platformdirs
import pytest


@pytest.fixture
def user_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Redirect the user's data directory, and forget the environment's."""
    folder = tmp_path / "user"
    monkeypatch.setattr(platformdirs, "user_data_dir", lambda *_, **__: str(folder))
    monkeypatch.delenv("ASCERTAIN_DATA", raising=False)
    return folder
