"""The rules of advice, each with findings that call for it and findings that do not."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from ascertain.missingness._label_signs import LabelSign
from ascertain.practice.diagnosis import _recommendations as rules
from ascertain.practice.diagnosis._adaptivity import Adaptivity, Sequel
from ascertain.practice.diagnosis._findings import Findings
from ascertain.practice.diagnosis._fixed_routes import FixedRoutes
from ascertain.practice.diagnosis._holes import Holes, Little, ValueSign
from ascertain.practice.diagnosis._profile import ColumnProfile, TableProfile
from ascertain.practice.diagnosis._recommendations import Recommendation, choose_treatment, recommend
from ascertain.practice.diagnosis._support import Spread, Steps, Support

COLUMN = ColumnProfile("b", "number", 0.5, 9, "b", 2.0, known=False, remark="", setups={"blood draw": 5.0})
TABLE = TableProfile("mine.csv", "sick", 4000, 0, 0, {"no": 500, "yes": 500}, (COLUMN,), ())
PLENTY = Spread(900, 1000, 1100)

HOLES = Holes(
    rate=0.5,
    cells=0.5,
    missing={"a": 0.5, "b": 0.5},
    measured={"a": 2000, "b": 2000},
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
    unaffordable=(),
    complete_affordable=4,
)
NO_HOLES = replace(HOLES, rate=0.0, missing={"a": 0.0, "b": 0.0})
COMPLETE = replace(SUPPORT, complete=3800, complete_by_class={"no": 3000, "yes": 800})
LABEL = LabelSign("a", {"no": 0.25, "yes": 0.75}, 1e-9)
GAIN = Adaptivity(
    "the best fixed set",
    0.1,
    0.04,
    0.16,
    0.9,
    0.8,
    ("a",),
    (Sequel(("b",), 0.5), Sequel(("c", "d"), 0.4), Sequel((), 0.1)),
    900,
)
ROUTES = FixedRoutes(0.0, 900, 300, ("a", "b"), 0.8, 0.6, 0.5, 0.2, 0.1, 0.04, GAIN)


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
    assert choose_treatment(support, holes) == treatment
    assert treatment.split()[0] in str(rules.on_treatment(support, holes)).replace("as it is", "complete")


def test_the_treatment_cites_the_numbers() -> None:
    text = rules.on_treatment(SUPPORT, HOLES).text
    assert "pays for 3 measurements" in text
    assert "1,000 rows of your table" in text
    assert "900 to 1,100" in text
    assert "all 10 actions are in 4 rows" in text


def said(found: Iterable[Recommendation]) -> str:
    return " ".join(f"{each.title}: {each.text}" for each in found)


def test_complete_rows_are_warned_of_with_the_theorem_in_numbers() -> None:
    text = said(rules.on_training(SUPPORT, HOLES))
    assert "leaves 4 of 4,000" in text
    assert "4,000 * (1 - 0.50)^10 = 3.9" in text
    assert "random part" not in text
    assert "not a random part" in said(rules.on_training(SUPPORT, replace(HOLES, label_signs=(LABEL,))))
    assert "Do not keep complete rows only" not in said(rules.on_training(COMPLETE, HOLES))


@pytest.mark.parametrize(
    ("support", "words"),
    [
        (SUPPORT, "4 complete rows only"),
        (COMPLETE, "(--state sm) as well"),
        (replace(SUPPORT, steps=Steps(1, 1, 1, 1.0)), "worth the same whatever else a row lacks"),
    ],
)
def test_the_state_follows_from_complete_rows(support: Support, words: str) -> None:
    assert words in said(rules.on_training(support, HOLES))


@pytest.mark.parametrize(
    ("support", "holes", "yes", "words"),
    [
        (SUPPORT, HOLES, 24, "'yes' (24 rows) are too few"),
        (SUPPORT, HOLES, 4, "'yes' (4 rows) cannot even be split"),
        (
            replace(SUPPORT, paths=Spread(0, 7, 50), unsupported_paths=0.25),
            HOLES,
            500,
            "chosen at random, is in 7 rows (median)",
        ),
        (replace(SUPPORT, paths_rarest_class=Spread(0, 3, 9)), HOLES, 500, "3 of the class 'yes'"),
        (SUPPORT, replace(HOLES, measured={"a": 40, "b": 2000}), 500, "Hardly any row has 'a' (40 rows)."),
        (
            replace(SUPPORT, rows=120),
            replace(HOLES, measured={"a": 80, "b": 110}),
            500,
            "Of the 120 rows, fewer than 100 have 'a' (80 rows). What these are worth is known only roughly",
        ),
        (replace(SUPPORT, pairs_apart=(("a", "b"),)), HOLES, 500, "'a' with 'b'"),
        (
            replace(SUPPORT, unaffordable=("b",), complete_affordable=70),
            HOLES,
            500,
            "'b' (2 and 5 for 'blood draw'). Without them 70 of 4,000 rows are complete, instead of 4",
        ),
    ],
)
def test_too_few_rows_are_counted(support: Support, holes: Holes, yes: int, words: str) -> None:
    (found,) = rules.on_rows(support, holes, replace(TABLE, classes={"no": 500, "yes": yes}))
    assert words in found.text


def test_enough_rows_are_not_mentioned() -> None:
    assert list(rules.on_rows(SUPPORT, HOLES, replace(TABLE, classes={"no": 25, "yes": 25}))) == []


@pytest.mark.parametrize(
    ("holes", "words"),
    [
        (
            replace(HOLES, label_signs=(LABEL,)),
            "1 of 2 actions were measured more often in some classes, most of all 'a' (in 25% of 'no' and",
        ),
        (
            replace(HOLES, value_signs=(ValueSign("a", "b", 0.2, 1e-6),)),
            "rows without 'a' have smaller values of 'b', AUROC 0.80",
        ),
        (replace(HOLES, little=Little(90.0, 30, 1e-9, 500)), "Little's test has p < 0.001"),
        (HOLES, "Nothing in the table speaks against"),
    ],
)
def test_signs_about_the_mechanism_are_cited(holes: Holes, words: str) -> None:
    text = said(rules.on_missingness(holes))
    assert words in text
    assert ("What was measured tells the class" in text) == bool(holes.label_signs)


@pytest.mark.parametrize(
    ("sensitivity", "words"),
    [(0.2, "It matters which set is bought"), (0.01, "It hardly matters which set is bought")],
)
def test_fixed_sets_are_the_yardstick(sensitivity: float, words: str) -> None:
    assert words in said(rules.on_routes(replace(ROUTES, sensitivity=sensitivity)))


def test_a_set_that_is_no_better_than_an_average_one_is_not_called_the_best() -> None:
    words = said(rules.on_routes(replace(ROUTES, best_score=0.55, sensitivity=-0.05, noise=0.1)))
    assert "is the best cannot be told from these rows: what half of them prefer has a balanced" in words
    assert "'a' and 'b'" not in words.partition("Measuring")[0]


@pytest.mark.parametrize(
    ("adaptivity", "title", "words"),
    [
        (
            GAIN,
            "Let results decide",
            "Measuring 'a' first and then, depending on the results, 'b' (in 50% of the rows), or 'c' and "
            "'d' (in 40% of the rows), or something else, has 0.90",
        ),
        (replace(GAIN, gain=0.0, low=-0.01, high=0.01), "Try a fixed set of actions first", "may be enough"),
        (replace(GAIN, gain=0.0, low=-0.05, high=0.05), "Compare a policy", "do not show whether"),
        (
            replace(GAIN, first=(), then=(Sequel(("b",), 0.6), Sequel((), 0.4))),
            "Let results decide",
            "Measuring, by what is known from the start, 'b' (in 60% of the rows), or nothing more (in 40%",
        ),
        ("there are too few rows", "Compare a policy", "cannot be told here: there are too few rows"),
    ],
)
def test_a_fixed_set_is_advised_only_where_adapting_gains_little(
    adaptivity: Adaptivity | str, title: str, words: str
) -> None:
    (found,) = rules.on_routes(replace(ROUTES, adaptivity=adaptivity))
    assert found.title.startswith(title)
    assert words in found.text


@pytest.mark.parametrize(
    ("adaptivity", "best", "title", "words"),
    [
        (GAIN, 0.8, "Compare a policy", "Too few rows have larger sets"),
        (replace(GAIN, gain=0.0, low=-0.01, high=0.01), 0.8, "Compare a policy", "cannot show whether"),
        (
            replace(GAIN, gain=0.0, low=-0.05, high=0.05),
            0.98,
            "Try a fixed set",
            "leaves about 0.02 to be gained",
        ),
        (GAIN, 0.98, "Compare a policy", "gains 0.10 (0.04 to 0.16) over the best fixed set that enough"),
    ],
)
def test_parts_of_sets_tell_about_whole_ones_only_if_hardly_anything_is_left(
    adaptivity: Adaptivity, best: float, title: str, words: str
) -> None:
    """Larger sets may need no adapting, or allow more of it."""
    routes = replace(ROUTES, shortened=0.9, best_score=best, adaptivity=adaptivity)
    (found,) = rules.on_routes(routes)
    assert found.title.startswith(title)
    assert words in found.text
    assert "90% of the sets were cut to a part that enough rows have" in found.text


def test_what_cannot_be_told_is_not_said() -> None:
    """The chosen set is worse than an average one in the other rows."""
    average = replace(GAIN, over="an average set", gain=0.0, low=-0.01, high=0.01)
    routes = replace(ROUTES, best_score=0.58, sensitivity=-0.02, noise=0.02)
    (found,) = rules.on_routes(replace(routes, adaptivity=average))
    assert found.title == "Compare a policy with the best fixed set"
    assert "hardly matters" not in found.text
    assert "over an average set" in found.text
    (found,) = rules.on_routes(replace(routes, adaptivity=replace(GAIN, over="an average set")))
    assert "adapting gains 0.10 (0.04 to 0.16) over an average set" in found.text
    cut = replace(ROUTES, shortened=0.9, sensitivity=0.01, noise=0.02)
    assert "hardly matters" not in said(rules.on_routes(cut))


def test_without_holes_or_routes_nothing_is_said_about_them() -> None:
    assert not [
        *rules.on_training(SUPPORT, NO_HOLES),
        *rules.on_missingness(NO_HOLES),
        *rules.on_routes("no"),
    ]


def findings(holes: Holes) -> Findings:
    return Findings(replace(TABLE, classes={"no": 3000, "yes": 1000}), holes, SUPPORT, ROUTES)


def test_what_to_do_comes_first_and_limits_last() -> None:
    kinds = [each.kind for each in recommend(findings(replace(HOLES, label_signs=(LABEL,))))]
    assert kinds == sorted(kinds, key=("do", "care", "limit").index)
    assert set(kinds) == {"do", "care", "limit"}


def test_whether_results_should_decide_comes_first_and_in_plain_words() -> None:
    advice = recommend(findings(replace(HOLES, label_signs=(LABEL,))))
    assert advice[0].title == "Let results decide what comes next"
    for words in ("(s)", "(s, m)", "mask", "filtering", "theorem", "sensitivity", "restorer", "acquisition"):
        assert words not in said(advice)


def test_mnar_is_never_excluded() -> None:
    """Whatever the tests say, the reader is told that they cannot see the missing values."""
    little = Little(30.0, 30, 0.5, 500)
    for holes in (HOLES, replace(HOLES, little=little), replace(HOLES, label_signs=(LABEL,))):
        texts = [each.text for each in recommend(findings(holes))]
        assert any("missing not at random) cannot be told from any table" in text for text in texts)
        assert any("are not its scores on everybody" in text for text in texts)
    assert {each.kind for each in recommend(findings(NO_HOLES))} == {"do"}
