"""A model does not learn who is measured, says so, and is not scored by it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ascertain import AcquisitionClassifier
from ascertain.estimator._habits import habit_sentences
from ascertain.practice.comparison._followed import follow
from ascertain.practice.comparison._held_out import HeldOut, hold_out
from ascertain.practice.comparison._leaderboard import Candidate, Leaderboard, as_classifier, compare
from ascertain.practice.comparison._report import render, report_fit
from ascertain.tables._reading import UserTable


def table(share_of_well: float, n_rows: int = 500) -> UserTable:
    """Two columns that tell the class, and noise that nearly all ill people have."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, n_rows)
    columns = pd.DataFrame(rng.normal(size=(n_rows, 2)) + 0.8 * y[:, None], columns=["iron", "ecg"])
    columns = columns.mask(rng.random(columns.shape) < 0.2)
    measured = rng.random(n_rows) < np.where(y == 1, 1.0, share_of_well)
    columns["noise"] = np.where(measured, rng.normal(size=n_rows), np.nan)
    return UserTable("mine.csv", columns, "ill", ("well", "ill"), y, unlabelled=0)


@pytest.fixture(scope="module")
def never() -> tuple[HeldOut, Leaderboard]:
    data = hold_out(table(0.0), budget=2.0)
    board = compare(data, (Candidate("static", "s", "restricted"),), restorer="hotdeck", effort="low")
    return data, board


def test_a_column_that_no_well_person_has_is_not_used(
    never: tuple[HeldOut, Leaderboard], tmp_path: Path
) -> None:
    data, board = never
    assert data.aside["noise"].startswith("it was measured for 100% of 'ill' and 0% of 'well'")
    assert data.encoding.action_names == ("iron", "ecg")
    best = board.best.score(2.0, "dr")
    # Both columns together: the difference of classes is 0.8 sqrt(2) deviations, an AUROC of 0.79.
    assert best.estimate < 0.9
    model = as_classifier(data, board)
    with pytest.warns(UserWarning, match="will hold the"):
        model.save(tmp_path)
    (sign,) = AcquisitionClassifier.load(tmp_path).advisor_.habits
    assert (sign.action, sign.learnable) == ("noise", False)
    page = render(report_fit(data, board, "0" * 64))
    assert "Who was measured" in page
    assert "could only learn who is measured" in page


def test_probabilities_are_judged_on_rows_of_the_policy(never: tuple[HeldOut, Leaderboard]) -> None:
    data, board = never
    followed = follow(board.best.advisor, data.test, data.habits)
    assert not followed.as_they_are
    complete = np.asarray(data.problem.readable(data.test.available)).all(axis=1)
    assert (followed.sample.row == np.flatnonzero(complete)).all()
    # The section's AUROC is the estimate of the leaderboard by the same rows.
    assert followed.sample.scores()["auroc"] == pytest.approx(board.best.score(2.0, "ipw").estimate)


def test_a_known_column_that_no_well_person_has_is_used_with_a_warning() -> None:
    """It is on file or not before anybody decides, so a flag says which; who fits has to know that."""
    data = hold_out(table(0.0), budget=2.0, known=["noise"])
    assert "noise" in data.encoding.known
    (sentence,) = habit_sentences(data.signs)
    assert sentence.startswith("Whether 'noise' is on file tells the class: it is for 100% of 'ill' and 0%")
    assert not habit_sentences(hold_out(table(1.0), budget=2.0, known=["noise"]).signs)


@pytest.mark.slow
def test_the_classifier_warns_of_such_a_column_too() -> None:
    user = table(0.0)
    model = AcquisitionClassifier("static", budget=2, known=["noise"], effort="low", random_state=0)
    with pytest.warns(UserWarning, match="Whether 'noise' is on file tells the class"):
        model.fit(user.columns, user.y)


@pytest.mark.slow
def test_a_column_that_few_well_people_have_is_evened_out() -> None:
    data = hold_out(table(0.2), budget=2.0)
    assert data.encoding.action_names == ("iron", "ecg", "noise")
    (sign,) = data.habits.signs
    assert (sign.action, sign.learnable) == ("noise", True)
    train = data.rows.train
    has = np.asarray(data.problem.readable(train.available))[:, 2]
    well, ill = (has[np.asarray(train.y) == label].mean() for label in (0, 1))
    # Two shares of about 0.2, of 150 rows each.
    assert abs(well - ill) < 4 * 0.4 * np.sqrt(2 / 150)
    assert np.asarray(data.problem.readable(data.test.available))[np.asarray(data.test.y) == 1, 2].all()
    (sentence,) = habit_sentences(data.habits.signs)
    assert "'noise' (100% of 'ill' and" in sentence


@pytest.mark.slow
def test_the_classifier_warns_and_its_predictions_do_not_tell_who_was_measured() -> None:
    rows = table(0.3)
    model = AcquisitionClassifier(
        method="sequential", treatment="restricted", restorer="hotdeck", effort="low", random_state=0
    )
    with pytest.warns(UserWarning, match="What was measured tells the class: 'noise'"):
        model.fit(rows.columns, rows.y)
    assert [sign.action for sign in model.advisor_.habits] == ["noise"]
    nothing = pd.DataFrame({"iron": np.nan, "ecg": np.nan, "noise": [np.nan, -1.0, 0.0, 1.0]})
    found = model.predict_proba(nothing)[:, 1]
    # One who is measured is ill in 77 of 100 cases of this table, and in 50 if anybody is measured.
    assert np.abs(found[1:] - found[0]).max() < 0.15


@pytest.mark.slow
def test_the_classifier_does_not_use_a_column_that_no_well_person_has() -> None:
    rows = table(0.0)
    model = AcquisitionClassifier(
        method="sequential", treatment="restricted", restorer="hotdeck", effort="low", random_state=0
    )
    with pytest.warns(UserWarning, match="'noise' is not used: it was measured for 100%"):
        model.fit(rows.columns[["noise", "iron", "ecg"]], rows.y)
    steps = model.acquire(rows.columns[["noise", "iron", "ecg"]].fillna(0.0).iloc[:5])
    assert set(steps["action"].dropna()) == {"iron", "ecg"}
    nothing = pd.DataFrame({"noise": [np.nan, 3.0], "iron": np.nan, "ecg": np.nan})
    found = model.predict_proba(nothing)[:, 1]
    assert found[0] == found[1]
