"""Small studies for the tests: cheap methods, training of a moment."""

from pathlib import Path
from typing import Any

from ascertain.study._file import Study

TOML = """
name = "tiny"
datasets = ["cube", "cube_nuc"]
methods = ["random", "sequential"]
restorers = ["hotdeck"]
rates = [0.5]
splits = [0, 1]
routes = false

[settings.predictor]
epochs = 1
"""


def tiny(**changes: Any) -> Study:
    """Give a study of 24 cells: two datasets of one shape, two methods, three treatments, two splits."""
    usual: dict[str, Any] = {
        "name": "tiny",
        "datasets": ("cube", "cube_nuc"),
        "methods": ("random", "sequential"),
        "restorers": ("hotdeck",),
        "rates": (0.5,),
        "splits": (0, 1),
        "routes": False,
        "settings": {"predictor": {"epochs": 1}},
    }
    return Study(**(usual | changes))


def write_tiny(folder: Path) -> Path:
    path = folder / "tiny.toml"
    path.write_text(TOML)
    return path
