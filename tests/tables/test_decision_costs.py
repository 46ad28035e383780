"""Files of what wrong decisions cost."""

from pathlib import Path

import pytest

from ascertain import InputError
from ascertain.tables._decision_costs import read_decision_costs


@pytest.mark.parametrize(
    "text",
    [
        "true,well,ill\nwell,0,1\nill,10,0\n",
        "true\\decided;well;ill\nwell;0;1,00 EUR\nill;10,00 EUR;0\n",
        ",well,ill\nwell,,$1\nill,$10,\n",
    ],
    ids=["plain", "decimal commas", "empty cells"],
)
def test_costs_are_read_by_class(text: str, tmp_path: Path) -> None:
    path = tmp_path / "harm.csv"
    path.write_text(text)
    found = read_decision_costs(path)
    assert (found["well"]["ill"], found["ill"]["well"]) == (1.0, 10.0)
    assert found["well"].get("well", 0.0) == 0.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs a first line of decisions and a line for each true class"),
        ("true,well,well\nwell,0,1\n", "'well' is no name, or is there twice"),
        ("true,well,ill\nwell,0\n", "line 2: 1 costs for 2 decisions"),
        ("true,well,ill\nwell,0,1\nwell,0,1\n", "line 3: 'well' has a line already"),
        ("true,well,ill\nwell,0,\nill,1,0\n", "line 2: the cost of deciding 'ill' is empty"),
        ("true,well,ill\nwell,0,much\nill,1,0\n", "line 2: the cost of deciding 'ill' is 'much', no number"),
    ],
)
def test_mistakes_are_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "harm.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_decision_costs(path)
