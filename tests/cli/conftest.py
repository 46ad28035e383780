"""A saved model for all commands that use one."""

import warnings
from pathlib import Path

import pytest

from ascertain.practice.comparison._leaderboard import as_classifier
from tests.fitted import fitted


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    data, board, _ = fitted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a hot deck holds the training rows
        as_classifier(data, board).save(folder)
    return folder
