"""The rules of advice, each with findings that call for it and findings that do not."""

from dataclasses import replace

import pytest

from ascertain.practice import advice
from ascertain.practice.advice import Advice, Choice, choose
from ascertain.practice.fixed_routes import FixedRoutes
from ascertain.practice.holes import Holes, LabelSign, Little, ValueSign
from ascertain.practice.support import Spread, Steps, Support

PLENTY = Spread(900, 1000, 1100)

HOLES = Holes(
    rate=0.5,
    cells=0.5,
    missing={"a": 0.5, "b": 0.5},
    rows_by_actions=(1000, 2000, 1000),
    patterns=4,
    commonest=(),
    label_signs=(),
    label_comparisons=2,
    value_signs=(),
    value_comparisons=2,
    little=None,
)
SUPPORT = Support(
    rows=4000,
    actions=10,
    budget=3.0,
    steps=Steps(3, 3, 3, 3.0),
    depths=(),
    expected_path=500.0,
    expected_complete=4000 * 0.5**10,
    complete=4,
    complete_by_class={"no": 3, "yes": 1},
    paths=PLENTY,
    paths_rarest_class=PLENTY,
    rarest_class="yes",
    unsupported_paths=0.0,
    pairs_apart=(),
    too_dear=(),
    complete_but_too_dear=4,
)
NO_HOLES = replace(HOLES, rate=0.0, missing={"a": 0.0, "b": 0.0})
COMPLETE = replace(SUPPORT, complete=3800, complete_by_class={"no": 3000, "yes": 800})
LABEL = LabelSign("a", {"no": 0.25, "yes": 0.75}, 1e-9)
ROUTES = FixedRoutes("restored", 1000, 900, 300, ("a", "b"), 0.8, 0.6, 0.5, 0.2, 0.1, 0.04)


@pytest.mark.parametrize(
    ("support", "holes", "treatment"),
    [
        (SUPPORT, HOLES, "restored"),
        (SUPPORT, NO_HOLES, "complete"),
        (replace(SUPPORT, steps=Steps(1, 1, 1, 1.0)), HOLES, "restricted"),
        (COMPLETE, HOLES, "complete rows"),
        (replace(COMPLETE, complete_by_class={"no": 3770, "yes": 30}), HOLES, "restored"),
    ],
)
def test_the_treatment_follows_from_budget_and_complete_rows(
    support: Support, holes: Holes, treatment: str
) -> None:
    assert choose(support, holes).treatment == treatment
    assert choose(support, holes) == Choice(choose(support, holes).treatment, "s")
    assert treatment.split()[0] in str(advice.on_treatment(support, holes)).replace("as it is", "complete")


def test_the_treatment_cites_the_numbers() -> None:
    text = advice.on_treatment(SUPPORT, HOLES).text
    assert "buys 3 acquisitions" in text
    assert "1,000 rows of your table" in text
    assert "900 to 1,100" in text
    assert "all 10 actions together by 4 rows" in text


def test_complete_rows_are_warned_of_with_the_theorem_in_numbers() -> None:
    found = advice.on_complete_rows(SUPPORT, HOLES)
    assert found is not None
    assert "leaves 4 of 4,000" in found.text
    assert "4,000 * (1 - 0.50)^10 = 3.9" in found.text
    assert "random part" not in found.text
    signed = advice.on_complete_rows(SUPPORT, replace(HOLES, label_signs=(LABEL,)))
    assert signed is not None
    assert "not a random part" in signed.text
    assert advice.on_complete_rows(COMPLETE, HOLES) is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (advice.on_state(SUPPORT, HOLES), "4 complete rows only"),
        (advice.on_state(COMPLETE, HOLES), "try (s, m) as well"),
        (
            advice.on_state(replace(SUPPORT, steps=Steps(1, 1, 1, 1.0)), HOLES),
            "worth the same whatever else a row lacks",
        ),
        (advice.on_class_sizes({"no": 500, "yes": 24}), "'yes' (24 rows) are too few"),
        (advice.on_class_sizes({"no": 500, "yes": 4}), "'yes' (4 rows) cannot even be split"),
        (
            advice.on_thin_paths(replace(SUPPORT, paths=Spread(0, 7, 50), unsupported_paths=0.25)),
            "supported by 7 rows (median)",
        ),
        (
            advice.on_thin_paths(replace(SUPPORT, paths_rarest_class=Spread(0, 3, 9))),
            "of the class 'yes' by 3",
        ),
        (advice.on_rare_actions(SUPPORT, replace(HOLES, missing={"a": 0.99, "b": 0.5})), "'a' (40 rows)"),
        (advice.on_pairs(replace(SUPPORT, pairs_apart=(("a", "b"),))), "'a' with 'b'"),
        (
            advice.on_too_dear(replace(SUPPORT, too_dear=("b",), complete_but_too_dear=70)),
            "Without them 70 of 4,000 rows are complete, instead of 4",
        ),
        (
            advice.on_label(replace(HOLES, label_signs=(LABEL,))),
            "1 of 2 actions were measured more often in some classes, most of all 'a' (in 25% of 'no' and",
        ),
        (
            advice.on_mechanism(replace(HOLES, value_signs=(ValueSign("a", "b", 0.2, 1e-6),))),
            "rows without 'a' have smaller values of 'b', AUROC 0.80",
        ),
        (
            advice.on_mechanism(replace(HOLES, little=Little(90.0, 30, 1e-9, 500))),
            "Little's test has p < 0.001",
        ),
        (advice.on_mechanism(HOLES), "Nothing in the table speaks against"),
        (advice.on_unseen_values(HOLES), "cannot be told from any table"),
        (advice.on_routes(ROUTES), "beats the set 'a' and 'b'"),
        (advice.on_routes(replace(ROUTES, sensitivity=0.01)), "hardly matters"),
        (advice.on_routes(replace(ROUTES, sensitivity=0.03)), "so few rows do not show"),
    ],
)
def test_a_rule_that_applies_says_so_in_numbers(found: Advice | None, words: str) -> None:
    assert found is not None
    assert words in found.text


@pytest.mark.parametrize(
    "found",
    [
        advice.on_state(SUPPORT, NO_HOLES),
        advice.on_complete_rows(SUPPORT, NO_HOLES),
        advice.on_class_sizes({"no": 25, "yes": 25}),
        advice.on_thin_paths(SUPPORT),
        advice.on_rare_actions(SUPPORT, HOLES),
        advice.on_pairs(SUPPORT),
        advice.on_too_dear(SUPPORT),
        advice.on_label(HOLES),
        advice.on_mechanism(NO_HOLES),
        advice.on_unseen_values(NO_HOLES),
        advice.on_scores(NO_HOLES),
        advice.on_routes("no"),
    ],
)
def test_a_rule_that_does_not_apply_is_silent(found: Advice | None) -> None:
    assert found is None


def test_mnar_is_never_excluded() -> None:
    """Whatever the tests say, the reader is told that they cannot see the missing values."""
    little = Little(30.0, 30, 0.5, 500)
    for holes in (HOLES, replace(HOLES, little=little), replace(HOLES, label_signs=(LABEL,))):
        said = [advice.on_mechanism(holes), advice.on_unseen_values(holes)]
        assert any(each is not None and "missing not at random" in each.text for each in said)
