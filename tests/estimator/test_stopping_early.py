"""A policy that weighs prices against what wrong decisions cost stops where nothing is worth its price."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ascertain import AcquisitionClassifier, InputError

ALARM, MISSED = 10.0, 10.0
COSTS = {"quick": 0.5, "sure": 2.0, "noise": 1.0}


def cases(n_rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A quick test settles half of the cases; in the others, only the sure test tells anything."""
    rng = np.random.default_rng(seed)
    ill = rng.random(n_rows) < 0.5
    unclear = rng.random(n_rows) < 0.5
    quick = np.where(unclear, "unclear", np.where(ill, "plus", "minus"))
    table = pd.DataFrame({"quick": quick, "sure": ill * 2.0 - 1 + 0.3 * rng.normal(size=n_rows)})
    return table.assign(noise=rng.normal(size=n_rows)), np.where(ill, "ill", "well")


def planner(**changes: Any) -> AcquisitionClassifier:
    given: dict[str, Any] = {
        "method": "planner",
        "restorer": "hotdeck",
        "effort": "low",
        "random_state": 0,
        "costs": COSTS,
        "budget": 3.5,
        "decision_costs": {"well": {"ill": ALARM}, "ill": {"well": MISSED}},
    }
    return AcquisitionClassifier(**(given | changes))


@pytest.fixture(scope="module")
def stops() -> AcquisitionClassifier:
    return planner(stop_early=True).fit(*cases(1500))


def total_cost(model: AcquisitionClassifier, n_rows: int = 2000) -> tuple[float, float]:
    table, y = cases(n_rows, seed=1)
    last = model.acquire(table).groupby("row").last()
    wrong = (last["prediction"].to_numpy() != y).mean()
    return float(ALARM * wrong + last["spent"].mean()), float(last["spent"].mean())


@pytest.mark.slow
def test_it_stops_once_nothing_is_worth_its_price(stops: AcquisitionClassifier) -> None:
    both = pd.DataFrame({"quick": ["minus", "plus"], "sure": [np.nan] * 2, "noise": [np.nan] * 2})
    found = stops.recommend(both)
    assert found["action"].isna().all()
    assert found["why"].tolist() == ["policy", "policy"]
    unclear = stops.recommend(both.assign(quick="unclear"))
    assert unclear["action"].tolist() == ["sure", "sure"]
    assert unclear["right_at_end"].isna().all()  # the budget will not be spent


@pytest.mark.slow
def test_all_costs_together_are_near_the_least(stops: AcquisitionClassifier) -> None:
    # The quick test for all, the sure one for the unclear half: 0.5 + 0.5 * 2. The sure test errs in 0.04%.
    whole, spent = total_cost(stops)
    assert whole == pytest.approx(1.5, abs=0.1)
    assert spent == pytest.approx(1.5, abs=0.1)


@pytest.mark.slow
def test_the_budget_still_holds(stops: AcquisitionClassifier) -> None:
    table, _ = cases(50, seed=2)
    assert (
        stops.recommend(table[["quick"]].assign(quick=np.nan, sure=np.nan, noise=np.nan), budget=1.0)[
            "action"
        ]
        .isin(["quick"])
        .all()
    )
    unclear = pd.DataFrame({"quick": ["unclear"], "sure": [np.nan], "noise": [np.nan]})
    assert stops.recommend(unclear, budget=1.5)["action"].isna().all()  # what is left cannot pay for it


@pytest.mark.slow
def test_dear_tests_are_not_worth_it() -> None:
    dear = planner(stop_early=True, costs={"quick": 30, "sure": 40, "noise": 30}, budget=100)
    table, y = cases(1500)  # as many as above, for the same program
    assert dear.fit(table, y).recommend(table.iloc[:1].assign(quick=np.nan, sure=np.nan, noise=np.nan))[
        "why"
    ].tolist() == ["policy"]


@pytest.mark.slow
def test_it_is_saved(stops: AcquisitionClassifier, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="training rows themselves"):
        stops.save(tmp_path / "model")
    again = AcquisitionClassifier.load(tmp_path / "model")
    assert again.stop_early
    table, _ = cases(40, seed=3)
    blank = table.iloc[::2].assign(sure=np.nan)
    pd.testing.assert_frame_equal(again.recommend(blank), stops.recommend(blank))


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="stop_early weighs prices against what wrong decisions cost"):
        planner(stop_early=True, decision_costs=None).fit(*cases(60))
    with pytest.raises(InputError, match=r"gdfs spends the budget, whatever .* to stop early, use planner"):
        planner(stop_early=True, method="gdfs").fit(*cases(60))
