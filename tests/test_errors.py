"""Tests for hints in messages."""

from ascertain.errors import did_you_mean


def test_hints_name_the_most_similar_or_all() -> None:
    assert did_you_mean("mcra", ("mcar", "mar")) == "did you mean 'mcar'?"
    assert did_you_mean("x", ("mcar", "mar")) == "there are 'mcar', 'mar'"


def test_hints_ignore_capitals() -> None:
    assert did_you_mean("BLOD", ["age", "Blood"]) == "did you mean 'Blood'?"


def test_hints_list_twenty_names_at_most() -> None:
    names = [f"column {number}" for number in range(21)]
    assert did_you_mean("?", names[:20]).endswith("'column 19'")
    assert did_you_mean("?", names).endswith("'column 19', ...")
