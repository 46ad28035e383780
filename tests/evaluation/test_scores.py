"""Tables of scores and of acquisition frequencies."""

import numpy as np

from ascertain.evaluation._rollouts import acquisition_frequencies
from ascertain.evaluation._scores import frequency_table
from tests.evaluation_cases import EPISODES, UNIT


def test_frequencies_are_shares_of_all_rows_at_every_step() -> None:
    found = acquisition_frequencies(EPISODES, 3)
    np.testing.assert_allclose(found, np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0]]) / 3, rtol=1e-6)
    tidy = frequency_table(found, UNIT)
    assert tidy.columns.tolist() == ["step", "action", "share"]
    assert tidy["step"].tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert tidy["action"].tolist() == ["first", "second", "third"] * 3
    np.testing.assert_allclose(tidy["share"], np.asarray(found).ravel())
    assert frequency_table(found, UNIT.without_names())["action"].tolist()[:2] == ["action 0", "action 1"]
