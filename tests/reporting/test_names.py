"""Names, order and colours."""

import pandas as pd

from ascertain import datasets, restoration
from ascertain.reporting import _names as names


def test_every_dataset_that_we_load_has_a_name_of_its_own() -> None:
    found = [names.dataset_name(name) for name in datasets.names()]
    assert len(set(found)) == len(found)
    assert names.dataset_name("cube_nuc") == "CUBE-NUC"


def test_variants_are_told_apart_where_there_are_two() -> None:
    assert [names.policy_name("ol", state) for state in ("", "s", "sm")] == ["OL", "OL (s)", "OL (s,m)"]
    assert names.policy_name("gdfs", "s") == "GDFS"
    assert [names.policy_name("mine", state) for state in ("", "s", "sm")] == ["mine", "mine", "mine (s,m)"]


def test_several_completions_are_told_with_the_restorer() -> None:
    assert names.restorer_name("ensemble:6") == "ensemble with 6 completions"
    assert names.restorer_name("hotdeck") == restoration.get("hotdeck").label
    assert names.restorer_name("mine:2") == "mine with 2 completions"


def test_colours_are_the_papers_and_those_of_others_differ() -> None:
    given = names.colours(["mine", "ol", "yours", "random"])
    assert given["ol"] == "#976800"
    assert len(set(given.values())) == 4


def test_what_is_not_known_comes_last_by_alphabet() -> None:
    assert names.in_order("mechanism", ["z", "mnar_self", "a", "mcar", "a"]) == [
        "mcar",
        "mnar_self",
        "a",
        "z",
    ]


def test_baselines_are_left_out_unless_there_is_nothing_else() -> None:
    frame = pd.DataFrame({"method": ["random", "ol", "mine"]})
    assert names.without_baselines(frame)["method"].tolist() == ["ol", "mine"]
    assert names.without_baselines(frame.iloc[:1])["method"].tolist() == ["random"]


def test_names_in_figures_are_short_and_no_mathematics() -> None:
    assert names.plain("a$b$") == r"a\$b\$"
    assert names.plain("x" * 40, 10) == "x" * 9 + "…"
