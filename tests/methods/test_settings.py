"""Settings beyond all measure are refused before anything is computed, whoever asks for them."""

import time
from typing import Any

import pytest

from ascertain import InputError, methods, restoration
from ascertain.models._files import PartRecord
from ascertain.models._saving import _settings
from ascertain.recipe._presets import overridden

MOST = 2**31 - 1  # which 32 bits can count, but no memory can hold so many of anything

AT_ONCE = [
    ("aaco", "candidates"),
    ("aaco_nn", "candidates"),
    ("aaco_nn", "steps"),
    ("concrete", "steps"),
    ("cwcf", "sampled_slices"),
    ("dime", "steps"),
    ("eddi", "samples"),
    ("gdfs", "passes"),
    ("jafa", "frames_per_batch"),
    ("jafa", "most_observed"),
    ("jafa", "slots"),
    ("miwae", "codes"),
    ("miwae", "training_codes"),
    ("mixture", "starts"),
    ("ol", "confidence_passes"),
    ("permutation", "exchanges"),
    ("planner", "direct_slots"),
    ("planner", "folds"),
    ("planner", "networks"),
    ("planner", "updates_per_round"),
    ("sefa", "draws"),
    ("sefa", "training_draws"),
    ("static", "routes"),
    ("trees", "trees"),
]


@pytest.mark.parametrize(("name", "setting"), AT_ONCE)
def test_no_setting_takes_all_memory(name: str, setting: str) -> None:
    kind: Any = methods if name in methods.names() else restoration
    part, most = kind.get(name), 256 if setting == "networks" else 65536
    bound, got = f"{setting}: Input should be less than or equal to {most}", f", got {MOST}"
    # As in study files and `--set`.
    with pytest.raises(InputError, match=rf"^settings\.{name}\.{bound}{got}$"):
        overridden(part.settings(), {setting: MOST}, f"settings.{name}")
    # As in the files of models.
    with pytest.raises(InputError, match=rf"^settings\.{bound}{got}$"):
        _settings(part, PartRecord(name=name, module="", settings={setting: MOST}))
    assert getattr(overridden(part.settings(), {setting: most}, ""), setting) == most


def test_no_number_of_components_takes_all_memory() -> None:
    settings = restoration.get("mixture").settings()
    with pytest.raises(InputError, match=r"components\[1\]: .* less than or equal to 65536, got 2147483647"):
        overridden(settings, {"components": [1, MOST]}, "settings.mixture")


def test_the_most_candidates_are_drawn_quickly() -> None:
    from ascertain.methods._aaco import Settings, random_subsets

    start = time.perf_counter()
    assert random_subsets(Settings(candidates=65536), 20).shape == (65536, 20)
    assert time.perf_counter() - start < 20  # seconds; on busy cores
