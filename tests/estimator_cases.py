"""A table of patients, and classifiers that take little time to fit to it."""

from typing import Any

import numpy as np
import pandas as pd

from ascertain import AcquisitionClassifier


def patients(n: int, seed: int = 0, missing: float = 0.3) -> tuple[pd.DataFrame, np.ndarray]:
    """Give a table in which the scan decides, and the colour of the hat tells a little about it."""
    rng = np.random.default_rng(seed)
    scan = rng.normal(size=n)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 90, n).astype(float),
            "hat": np.where(scan + rng.normal(size=n) > 0, "red", "blue"),
            "smoker": rng.random(n) < 0.5,
            "scan": scan,
        }
    )
    holes = rng.random(table.shape) < missing
    table = table.astype({"hat": object, "smoker": object}).mask(pd.DataFrame(holes, columns=table.columns))
    return table, np.where(scan > 0, "ill", "well")


def quick(**changes: Any) -> AcquisitionClassifier:
    """Give a classifier that compiles and trains little."""
    usual: dict[str, Any] = {
        "method": "sequential",
        "restorer": "hotdeck",
        "effort": "low",
        "random_state": 0,
    }
    return AcquisitionClassifier(**(usual | changes))
