"""The terminal session, line by line."""

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.text import Text

from ascertain.errors import InputError
from ascertain.estimator._advisor import Advisor
from ascertain.estimator._consultation import Ahead, Consultation
from ascertain.practice._consult import Session, ahead_text, prediction_text, read_case

from ..fitted import BUDGET, fitted
from ..foresight import with_foresight


class Terminal:
    """Types lines at the prompts, and keeps what was shown."""

    def __init__(self, lines: Sequence[str], case: Consultation | None = None, saved: Path | None = None):
        self.lines = list(lines)
        self.prompts: list[str] = []
        self.file = io.StringIO()
        self.session = Session(
            case or Consultation(advisor()), self.ask, Console(file=self.file, width=200), saved=saved
        )

    def ask(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)

    def run(self) -> Consultation:
        return self.session.run()

    @property
    def shown(self) -> str:
        return self.file.getvalue()


def advisor() -> Advisor:
    """Take the policy that goes through the actions in their order: [b]mi, ecg, blood."""
    _, board, _ = fitted()
    return next(each for each in board.candidates if each.candidate.method == "sequential").advisor


def typed(*lines: str, case: Consultation | None = None) -> tuple[Consultation, Terminal]:
    terminal = Terminal([*lines, "stop"], case)
    return terminal.run(), terminal


def test_a_whole_case_from_known_columns_to_the_budget() -> None:
    end, terminal = typed("40", "f", "0.5", "-1", "1", "0.7")
    assert end.values == {"age": 40, "sex": "f", "[b]mi": 0.5, "ecg": -1.0, "iron": 1.0, "tibc": 0.7}
    assert [prompt.partition(",")[0] for prompt in terminal.prompts] == [
        *("age", "sex", "[b]mi", "ecg", "blood: iron", "tibc"),
        "> ",
    ]
    answer = end.answer()
    assert (answer.spent, answer.left) == (BUDGET, 0)
    assert answer.prediction == "yes"  # both blood values are high
    assert (
        "Measure next: [b]mi, cost 1; by itself expected to remove" in terminal.shown
    )  # not taken for markup
    assert "% of the uncertainty (0." in terminal.shown
    assert "Measure next: blood (iron, tibc), cost 3" in terminal.shown
    assert "Otherwise: ecg (2), blood (3)" in terminal.shown
    assert "0 left of 6; 6 spent" in terminal.shown
    assert "Stop here: nothing else fits the budget." in terminal.shown


def test_known_columns_may_stay_empty_and_are_asked_until_they_can_be_used() -> None:
    end, terminal = typed("", "male", "x", "m")
    assert end.values == {"sex": "m"}
    assert terminal.shown.count("cannot be used: 'sex' takes one of 'f', 'm'") == 2


def test_commands_are_understood_while_known_columns_are_asked_for() -> None:
    end, terminal = typed(
        "list", "40", "ecg=1,5", "undo", "undo", "41", "skip ecg", "budget 3", "undo x", "f"
    )
    assert end.values == {"age": 41, "sex": "f"}
    assert end.skipped == ("ecg",)
    assert end.budget == 3
    assert "expected to remove" in terminal.shown
    end, _ = typed("sex=m", "40")
    assert end.values == {"sex": "m", "age": 40}


def test_one_may_stop_at_any_question() -> None:
    end, terminal = typed("help")  # then "stop", while the first known column is asked for
    assert end.values == {}
    assert "end with the prediction" in terminal.shown
    for word in ("quit", "Exit"):
        end, _ = typed("40", word, "f")
        assert end.values == {"age": 40}
    end, _ = typed(
        "40", "f", "0.5", "-1", "1"
    )  # "stop" where the second value of the blood panel is asked for
    assert end.values == {"age": 40, "sex": "f", "[b]mi": 0.5, "ecg": -1.0, "iron": 1.0}


def test_nothing_is_lost_by_a_mistake() -> None:
    end, terminal = typed("", "", "0.5", "much", "ecgg=3", "pian: none", "ecg", "undo it", "1,5")
    assert end.values == {"[b]mi": 0.5, "ecg": 1.5}
    assert "'much' cannot be used: 'ecg' takes a number" in terminal.shown
    assert "there is no column 'ecgg'; did you mean 'ecg'?" in terminal.shown
    assert "there is no column 'pian'; did you mean 'pain'?" in terminal.shown


def test_it_says_what_most_likely_follows_and_how_often_it_is_right_in_the_end() -> None:
    foreseeing = Consultation(with_foresight(advisor(), "pain=none"))
    _, terminal = typed("", "", "0.5", "-1", case=foreseeing)
    assert "by itself expected to remove" in terminal.shown
    # The stub expects 7/8, 6/7 and 4/5 with 6, 5 and 3 left.
    for told in (
        "Then most likely ecg. Right in 88 of 100 such cases once the budget of 6 is spent.",
        "Then most likely blood. Right in 86 of 100 such cases once the budget of 6 is spent.",
        "Then stop. Right in 80 of 100 such cases once the budget of 6 is spent.",
    ):
        assert told in terminal.shown
    _, terminal = typed("", "", "budget 12", case=foreseeing)
    told = terminal.shown.partition("6 left of 6")[2]
    assert "12 left of 12" in told
    assert told.count("once the budget of 6 is spent.") == 2  # what it was trained for, and knows about
    _, terminal = typed("", "")
    assert "Then " not in terminal.shown  # other policies do not look ahead


def test_what_is_not_certain_is_not_called_so() -> None:
    assert "Then stop (60%). Right in 99 of 100" in ahead(Ahead(0.999, None, 0.6, 5.0))
    assert "Then most likely [x] (41%). Right in 51 of 100" in ahead(Ahead(0.51, "[x]", 0.41, 5.0))


def ahead(expected: Ahead) -> str:
    return Text.from_markup(ahead_text(expected)).plain


def test_it_says_which_results_would_change_the_prediction() -> None:
    _, terminal = typed("", "", "skip", "skip")
    shown = terminal.shown.partition("Measure next: blood")[2]
    assert re.search(r"\nIf (iron|tibc) above -?[0-9.]+: (yes|no) [0-9]+%; ", shown)


def test_going_past_the_budget_is_remarked() -> None:
    end, terminal = typed("", "", "scan=0.5")
    assert "4 over the budget of 6; 10 spent" in terminal.shown
    assert end.answer().over == 4
    _, within = typed("", "", "iron=1")
    assert "over the budget" not in within.shown


def test_ranges_of_training_are_told_in_few_digits() -> None:
    _, terminal = typed("", "")
    assert re.fullmatch(
        r"\[b\]mi, a number \(-[0-9]\.[0-9]{1,2} to [0-9]\.[0-9]{1,2} in training\) > ", terminal.prompts[2]
    )


@pytest.mark.parametrize("line", ["pain=strong", "pain: STRONG", "Pain = strong", "  pain =strong"])
def test_other_columns_are_entered_by_name(line: str) -> None:
    end, _ = typed("", "", line)
    assert end.values == {"pain": "strong"}


def test_a_column_of_a_panel_by_name_pays_for_the_panel() -> None:
    end, _ = typed("", "", "iron=1")
    assert end.answer().spent == 3


def test_unusual_values_need_to_be_confirmed() -> None:
    end, terminal = typed("", "", "99", "no", "98", "y", "iron=77", "", "ecg=-50", "yes")
    assert end.values == {"[b]mi": 98, "ecg": -50}
    assert "99 is unusual: '[b]mi' takes a number (" in terminal.shown
    assert "Unusual     [b]mi" in terminal.shown


def test_skipped_actions_are_not_recommended_and_come_back_by_undo() -> None:
    end, terminal = typed(
        "", "", "skip", "skip BLOOD", "skip blood", "skip blod", "undo", "undo", "undo", "undo"
    )
    assert end.skipped == ()
    assert end.values == {}
    assert "Measure next: ecg" in terminal.shown
    assert "Skipped     [b]mi, blood" in terminal.shown
    assert "'blood' is skipped already" in terminal.shown
    assert "there is no action 'blod'; did you mean 'blood'?" in terminal.shown
    assert "there is nothing to undo" in terminal.shown


def test_a_panel_takes_what_there_is() -> None:
    start = ["", "", "skip", "skip ecg"]
    end, _ = typed(*start, "", "0.4")
    assert end.values == {"tibc": 0.4}
    end, terminal = typed(*start, "0.3", "high", "")
    assert end.values == {"iron": 0.3}
    assert "'high' cannot be used" in terminal.shown
    end, terminal = typed(*start, "", "")
    assert end.values == {}
    assert "nothing of 'blood' was entered; type skip" in terminal.shown
    end, _ = typed(*start, "900", "n")  # the first value is not meant so: the panel is not asked further
    assert end.values == {}


def test_when_all_is_skipped_it_says_so() -> None:
    every = [f"skip {name}" for name in advisor().encoding.action_names]
    end, terminal = typed("", "", *every, "skip", "12")
    assert end.answer().why == "nothing left"
    assert "Stop here: everything is measured or skipped." in terminal.shown
    assert "nothing is recommended that could be skipped" in terminal.shown
    assert "'12' is neither a command nor name=value" in terminal.shown


def test_help_and_list_change_nothing() -> None:
    end, terminal = typed("", "", "help", "list", "?", "")
    assert end.entries == ()
    for words in ("skip NAME", "save FILE", "name=value", "over the budget", "bits"):
        assert words in terminal.shown
    assert "Type a value, skip, stop or help." in terminal.shown


def test_a_case_is_saved_and_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    terminal = Terminal(["40", "f", "save", f"save {tmp_path}", f"save {file}", "skip", "stop"])
    terminal.run()
    assert "name a file: save FILE" in terminal.shown
    assert "is a folder" in terminal.shown
    assert terminal.session.saved == file
    assert terminal.session.unsaved  # the skipping came after
    case = read_case(advisor(), file, None)
    assert case.values == {"age": 40, "sex": "f"}
    again = Terminal(["0.5", f"save {file}", "stop"], case, file)
    assert again.run().values == {"age": 40, "sex": "f", "[b]mi": 0.5}
    assert not again.session.unsaved  # its own file is replaced without a question
    assert read_case(advisor(), file, 2.0).answer().budget == 2


def test_other_files_are_not_replaced_unasked(tmp_path: Path) -> None:
    file = tmp_path / "thesis.txt"
    file.write_text("ten years")
    terminal = Terminal(["40", "", f"save {file}", "n", "stop"])
    terminal.run()
    assert file.read_text() == "ten years"
    assert terminal.session.saved is None
    Terminal(["40", "", f"save {file}", "y", "stop"]).run()
    assert json.loads(file.read_text())["entries"] == [{"values": {"age": 40.0}, "skipped": None}]


def test_the_end_of_all_lines_ends_the_session_with_the_case_at_hand() -> None:
    terminal = Terminal(["40", "f", "0.5"])
    with pytest.raises(EOFError):
        terminal.run()
    assert terminal.session.case.values == {"age": 40, "sex": "f", "[b]mi": 0.5}
    assert terminal.session.unsaved


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a saved case"),
        ('{"steps": []}', "the case cannot be used: steps"),
        ('{"entries": [{"values": {"height": 180}}]}', "with this model: there is 'height'"),
        ('{"entries": [{"skipped": "height"}]}', "with this model: there is no action 'height'"),
    ],
)
def test_files_that_are_no_case_of_this_model_are_refused(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    file.write_text(content)
    with pytest.raises(InputError, match=message):
        read_case(advisor(), file, None)
    with pytest.raises(InputError, match="there is no file"):
        read_case(advisor(), tmp_path / "nowhere.json", None)


def test_this_cases_prices_and_budget_can_be_typed() -> None:
    end, terminal = typed("", "", "price ecg 4,50 EUR", "price blood=9", "budget 20", "list")
    assert end.costs == {"ecg": 4.5, "blood": 9.0}
    assert end.budget == 20
    assert "trained for other prices (ecg 4.5 instead of 2, blood 9 instead of 3)" in terminal.shown
    assert "20 left of 20; 0 spent" in terminal.shown
    assert f"trained for a budget of {BUDGET:g}, and has not learned" in terminal.shown
    back, _ = typed("", "", "price ecg", "price blood", case=end)
    assert back.costs == {}


def test_a_price_of_nothing_is_refused() -> None:
    end, terminal = typed("", "", "price nothing 3", "price ecg x", "price ecg -1", "budget x")
    assert (end.costs, end.budget) == ({}, None)
    assert "does not begin with what can be bought" in terminal.shown
    assert "the cost of 'ecg' is 'x', no number" in terminal.shown
    assert "the budget is 'x', no number" in terminal.shown


def test_forbidden_actions_are_listed_as_such() -> None:
    _, terminal = typed("", "", "list", case=Consultation(advisor(), forbid=("tibc",)))
    assert re.search("Forbidden +blood", terminal.shown)
    assert re.search("blood .* forbidden", terminal.shown)


def test_prices_are_saved_with_the_case(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    end, terminal = typed("", "", "price ecg 4", f"save {path}", "price ecg 5")
    assert terminal.session.unsaved
    again = read_case(advisor(), path, budget=3)
    assert (again.costs, again.budget) == ({"ecg": 4.0}, 3)
    assert end.costs == {"ecg": 5.0}


def test_a_decision_that_is_not_for_the_likeliest_class_is_explained() -> None:
    plain = advisor()
    case = Consultation(plain).enter({"age": 40, "sex": "f"})
    answer = case.answer()
    other = next(each for each in answer.probabilities if each != answer.prediction)
    # To miss the other class costs so much that it is decided for at any probability.
    costs = {answer.prediction: {other: 1.0}, other: {answer.prediction: 1e6}}
    dear = replace(plain, problem=plain.problem.with_decision_costs(costs))
    told = prediction_text(Consultation(dear).enter({"age": 40, "sex": "f"}).answer())
    assert "(the least expected cost)" in told
    assert f"decide [bold]{other}[/]" in told
    assert "expected cost" not in prediction_text(answer)


def test_names_stay_in_their_lines() -> None:
    """Those of models that others have made, too."""
    found = advisor()

    def forged(name: str) -> str:
        return f"{name}\nWarning: forged\u200b" if name in ("age", "ecg") else name

    encoding = replace(
        found.encoding,
        columns=tuple(replace(each, name=forged(each.name)) for each in found.encoding.columns),
        actions=tuple(
            replace(each, name=forged(each.name), columns=tuple(map(forged, each.columns)))
            for each in found.encoding.actions
        ),
        known=tuple(map(forged, found.encoding.known)),
    )
    classes = np.array([f"{name}\r\nWarning: forged" for name in found.classes])
    case = Consultation(replace(found, encoding=encoding, classes=classes))
    _, terminal = typed("40", "f", "list", case=case)
    prompts = [prompt.partition(",")[0] for prompt in terminal.prompts]
    assert prompts[0] == r"age\nWarning: forged\u200b"
    assert not re.search("^ *Warning", terminal.shown, re.MULTILINE)
    assert r"ecg\nWarning: forged\u200b" in terminal.shown
    assert r"no\r\nWarning: forged" in terminal.shown
