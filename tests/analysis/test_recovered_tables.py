"""The tables of what restorers recover: that they say what was computed."""

import pandas as pd
import pytest

from ascertain import InputError
from ascertain.analysis import _recovered_tables as tables
from ascertain.analysis._artefacts import ARTEFACTS
from ascertain.analysis._recovered import changes, recovered

from .made_up import Row, arms, cell, results_of
from .test_recovered import study, with_auto


def small() -> list[Row]:
    """Two datasets, DIME and the planner: numbers that can be worked out by hand."""
    rows = arms("cube", "dime", [0.8, 0.9], [0.6, 0.7], [0.7, 0.8])  # damage .2, gain .1
    rows += cell("cube", "dime", "restored", [0.8, 0.9], restorer="ensemble:6")  # all of it
    rows += arms("actg175", "dime", [0.7, 0.7], [0.7, 0.7], [0.65, 0.65])  # no damage, and a certain loss
    rows += cell("actg175", "dime", "restored", [0.7, 0.72], restorer="ensemble:6")
    rows += arms("cube", "planner", [0.9, 0.9], [0.5, 0.5])
    return rows + cell("cube", "planner", "direct", [0.7, 0.9])


def test_a_way_is_told_in_one_row() -> None:
    found = tables.shares_table(results_of(small()))
    assert found["Trained on"].tolist() == ["PVAE", "ensemble with 6 completions", "direct"]
    assert found["Policies"].tolist() == ["the paper's policies", "the paper's policies", "planner"]
    first = found.iloc[0].to_dict()
    assert (first["Mechanism"], first["Rate"]) == ("MCAR", "0.7")
    assert (first["Damage"], first["Gain"], first["Recovered"]) == ("+0.100", "+0.025", "25%")
    assert (first["Change where undamaged"], first["Losing pairs"]) == ("\u22120.050", "1 of 2")
    assert (first["Worst pair"], first["Its gain"]) == ("DIME on ACTG175", "\u22120.050 ± 0.000")
    # The planner's splits recover one half and all of .4.
    last = found.iloc[2].to_dict()
    assert (last["Recovered"], last["95% interval"]) == ("75%", "50% to 100%")
    assert last["Change where undamaged"] == "\u2013"


def test_datasets_and_policies_stand_side_by_side() -> None:
    by_dataset = tables.datasets_table(results_of(small()))
    assert by_dataset.columns.tolist()[-3:] == ["All", "CUBE", "ACTG175"]
    shares = by_dataset.iloc[:, -3:].to_numpy().tolist()
    assert shares[0] == ["25%", "50%", "\u2013"]
    assert shares[2] == ["75%", "75%", "\u2013"]
    by_policy = tables.policies_table(results_of(small()))
    assert by_policy.columns.tolist()[-2:] == ["DIME", "planner (s)"]  # the paper's first
    assert by_policy.iloc[:, -2:].to_numpy().tolist()[::2] == [["25%", "\u2013"], ["\u2013", "75%"]]


def test_rows_of_a_policy_follow_mechanism_and_rate() -> None:
    found = tables.policies_table(results_of(study()))
    ways = ["PVAE", "hot deck", "ensemble with 6 completions", "direct"]
    assert found["Trained on"].tolist() == ways * 2
    assert found["Mechanism"].tolist() == ["MCAR"] * 4 + ["MAR"] * 4
    all_changes = changes(results_of(study()))
    only = all_changes[(all_changes["method"] == "ol") & (all_changes["state"] == "sm")]
    expected = recovered(only)["share"].map(tables.percent).tolist()
    assert found["OL (s,m)"].tolist() == [*expected[:3], "\u2013", *expected[3:], "\u2013"]


def test_who_loses_is_listed() -> None:
    found = tables.losses_table(results_of(small()))
    assert found[["Trained on", "Policy", "Dataset", "p (Holm)"]].to_numpy().tolist() == [
        ["PVAE", "DIME", "ACTG175", "0.0000"]
    ]
    assert len(tables.losses_numbers(results_of(small()))) == 5  # all tests
    harmless = [row for row in small() if row["dataset"] == "cube"]
    with pytest.raises(InputError, match="no policy loses"):
        tables.losses_table(results_of(harmless))
    assert r"\bottomrule" in tables.losses_latex(results_of(harmless))


def test_other_policies_are_named_if_they_are_few() -> None:
    def label(*others: str) -> str:
        frame = pd.DataFrame({"policies": "other", "method": list(others)})
        return tables.policies_names(frame)["other"]

    assert label("sefa", "planner") == "planner and SEFA"
    assert label("planner", "eddi", "sefa", "cwcf") == label() == "other policies"


@pytest.mark.parametrize("name", [name for name in ARTEFACTS if name.startswith("recovered-")])
def test_latex_has_a_row_per_row_and_no_raw_percent_or_minus(name: str) -> None:
    artefact, results = ARTEFACTS[name], results_of(with_auto(small()))
    assert artefact.latex is not None
    text = artefact.latex(results)
    assert text.count(r" \\") == len(artefact.make(results)) + 1  # and the header
    assert "\u2212" not in text
    assert text.count("%") == text.count(r"\%")


def test_what_was_chosen_is_told() -> None:
    rows = small() + [
        {**row, "treatment": "auto", "restorer": "", "picked": row["restorer"] or row["treatment"]}
        for row in small()
        if row["method"] == "dime"
        and row["restorer"] == ("ensemble:6" if row["dataset"] == "cube" else "")
        and row["treatment"] == ("restored" if row["dataset"] == "cube" else "restricted")
    ]
    found = tables.choices_table(results_of(rows)).to_dict("records")
    assert len(found) == 1
    assert found[0]["Policies"] == "the paper's policies"
    # On CUBE both are the ensemble, which gains .2. On ACTG175 auto is restricted training; the other choice
    # is the ensemble in split 0, for its gain of .02 in split 1, and restricted training in split 1.
    gains = [found[0][name] for name in ("Gain of auto", "Gain of one choice", "Difference")]
    assert gains == ["+0.100", "+0.100", "0.000"]
    assert found[0]["Chosen"] == "ensemble with 6 completions 50%, restricted 50%"
    assert r"\bottomrule" in tables.choices_latex(results_of(rows))
    shown = tables.shares_table(results_of(rows))
    assert shown["Trained on"].tolist() == ["PVAE", "ensemble with 6 completions", "auto", "direct"]


def test_there_is_nothing_to_tell_without_a_choice() -> None:
    with pytest.raises(InputError, match="no cell of the treatment 'auto'"):
        tables.choices_table(results_of(small()))
    with pytest.raises(InputError, match="there is one split only"):
        tables.choices_table(results_of(with_auto(study(splits=1))))
