"""Tables for reading and for LaTeX."""

import re

import pytest

from ascertain import InputError
from ascertain.analysis import _tables as tables

from .made_up import Row, arms, cell, results_of, routes

NONE = "\N{EN DASH}"


def study() -> list[Row]:
    rows = arms("cube", "ol", [0.8, 0.8], [0.6, 0.5], [0.7, 0.6])
    rows += arms("cube", "ol", [0.8, 0.8], [0.6, 0.5], [0.7, 0.6], state="sm")
    rows += arms("heart_disease", "dime", [0.5, 0.5], [0.5001, 0.5], mechanism="mar", rate=0.3)
    rows += cell("cube", "ol", "restored", [0.9, None], restorer="hotdeck")
    return rows


def test_what_latex_would_read_as_markup_stands_for_itself() -> None:
    text = "a_b & 50% of $x$ #1 {y} ~z^2 \\end\nnext"
    escaped = tables.latex_cell(text)
    assert escaped == (
        r"a\_b \& 50\% of \$x\$ \#1 \{y\} \textasciitilde{}z\textasciicircum{}2 \textbackslash{}end next"
    )
    # No character is left that means something to LaTeX.
    bare = re.sub(r"\\(text\w+\{\}|[_&%$#{}])", "", escaped)
    assert not set(bare) & set("\\{}$&%#_~^")


def test_numbers_are_mathematics_in_latex() -> None:
    assert [tables.latex_cell(text) for text in ("0.062", "-0.002", NONE)] == ["$0.062$", "$-0.002$", "--"]
    assert tables.latex_cell("0.700 ± 0.100") == r"$0.700 \pm 0.100$"


def test_numbers_have_three_decimals_and_no_negative_zero() -> None:
    differences = [-0.0616, 0.0004, 0.0016]  # of restricted from complete training
    rows = [row for i, x in enumerate(differences) for row in arms(f"d{i}", "dime", [0.5], [0.5 + x])]
    table = tables.damage_table(results_of(rows))
    assert table["DIME"].tolist() == ["+0.062", "+0.000", "-0.002"]
    assert r"d1 & damage & $+0.000$ \\" in tables.damage_latex(results_of(rows))


def test_a_tabular_has_as_many_cells_in_every_row_as_columns() -> None:
    results = results_of(study(), routes=routes("cube", [0.6, 0.8]) + routes("heart_disease", [0.4, 0.4]))
    for text in (
        tables.route_structure_latex(results),
        tables.adaptivity_latex(results),
        tables.damage_latex(results),
    ):
        for columns, body in re.findall(r"\\begin{tabular}{(\w+)}(.*?)\\end{tabular}", text, re.DOTALL):
            rows = [line for line in body.splitlines() if line.endswith(r" \\")]
            spans = [
                sum(int(n) for n in re.findall(r"\\multicolumn{(\d)}", row)) or row.count(" & ") + 1
                for row in rows
            ]
            assert set(spans) == {len(columns)}
            assert body.count(r"\toprule") == body.count(r"\bottomrule") == 1
        assert text.count("{") == text.count("}")


def test_table_1_reads_as_in_the_paper() -> None:
    rows = routes("cube", [0.6, 0.8]) + routes("heart_disease", [0.4], budget=7.0)
    results = results_of([], routes=rows)
    table = tables.route_structure_table(results)
    assert table["Dataset"].tolist() == ["CUBE", "Heart Disease"]
    assert table["V static"].tolist() == ["0.700 ± 0.100", "0.400"]
    assert table["Ranks (V, Δ, ω)"].tolist() == ["1, 1, 2", "2, 2, 1"]
    text = tables.route_structure_latex(results)
    # Each column is ranked on its own: the overlap's order is the other way round.
    assert r"CUBE & $0.700 \pm 0.100$ & CUBE & $0.350 \pm 0.050$ & Heart Disease & $0.600$ \\" in text
    assert "10 for CUBE, 7 for Heart Disease" in text


def test_table_2_names_setting_and_correlations() -> None:
    results = results_of(study(), routes=routes("cube", [0.6, 0.8]))
    table = tables.adaptivity_table(results)
    assert table.to_numpy().tolist() == [["OL", "0.800", "+0.100", "+0.250", 1]]
    text = tables.adaptivity_latex(results)
    assert r"OL & $0.800$ & $+0.100$ & $+0.250$ \\" in text
    assert "under MCAR at $p=0.7$, averaged over 1 dataset " in text
    assert "Pearson $r$ is --" in text  # one cell has none


def test_the_damage_table_has_a_row_for_damage_and_one_for_each_restorer() -> None:
    table = tables.damage_table(results_of(study()))
    assert list(table.columns) == ["Mechanism", "Rate", "Dataset", "Quantity", "DIME", "OL (s)", "OL (s,m)"]
    about = table[["Mechanism", "Rate", "Dataset", "Quantity"]].to_numpy().tolist()
    assert about == [
        ["MCAR", "0.7", "CUBE", "damage"],
        ["MCAR", "0.7", "CUBE", "gain (PVAE)"],
        ["MCAR", "0.7", "CUBE", "gain (hot deck)"],
        ["MAR", "0.3", "Heart Disease", "damage"],
    ]
    # The damage is over both splits, though the hot deck is finished in one.
    assert table["OL (s)"].tolist() == ["+0.250", "+0.100", "+0.300", NONE]
    assert table["DIME"].tolist() == [NONE, NONE, NONE, "+0.000"]
    text = tables.damage_latex(results_of(study()))
    assert text.count(r"\begin{table}") == 2  # one for each mechanism
    assert r"\shortstack{OL\\(s,m)}" in text
    numbers = tables.damage_numbers(results_of(study()))
    assert {"damage_low", "damage_high", "gain_low", "gain_high"} <= set(numbers.columns)


def test_names_of_users_are_escaped() -> None:
    rows = arms("50%_of $", "a&b", [0.8], [0.6])
    text = tables.damage_latex(results_of(rows))
    assert r"50\%\_of \$" in text
    assert r"a\&b" in text


def test_without_restricted_training_there_is_no_damage() -> None:
    with pytest.raises(InputError, match="no restricted cell"):
        tables.damage_table(results_of(cell("cube", "dime", "complete", [0.5])))
