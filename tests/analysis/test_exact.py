"""The regrets of the exact study: how they are read and summarised."""

from pathlib import Path

import pandas as pd
import pytest

from ascertain import InputError
from ascertain.analysis._exact import infer_sweep, read_exact, regret_summary


def test_the_main_rate_is_the_one_that_other_budgets_have_or_the_papers() -> None:
    def regrets(arms: list[tuple[int, int, float]]) -> pd.DataFrame:
        return pd.DataFrame(arms, columns=["d", "budget", "rate"]).assign(n=10, replicate=0)

    only_dims = regrets([(6, 2, 0.3), (6, 2, 0.6), (8, 2, 0.3), (8, 2, 0.6)])
    assert list(infer_sweep(only_dims).rates) == [0.6, 0.3]
    with_budgets = regrets([(6, 2, 0.3), (6, 2, 0.6), (6, 3, 0.3)])
    assert list(infer_sweep(with_budgets).rates) == [0.3, 0.6]


def test_regrets_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    path = tmp_path / "exact" / "regret.parquet"
    path.parent.mkdir()
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read"):
        read_exact(tmp_path)
    pd.DataFrame({"d": [6]}).to_parquet(path)
    with pytest.raises(InputError, match="lacks the columns budget"):
        read_exact(tmp_path)


def test_the_summary_says_where_each_approach_ends() -> None:
    curve = pd.DataFrame({"n": [10, 100, 1000, 10_000, 100_000], "regret": [0.5, 0.0, 0.25, 0.0, 0.0]})
    curve = curve.assign(d=6, budget=2, rate=0.6, horizon=2, replicate=0)
    solved = curve.assign(approach="filtering")
    unsolved = curve.assign(approach="aliasing", regret=curve["regret"] + 0.125)
    myopic = solved.assign(horizon=1, regret=0.25)
    summary = regret_summary(pd.concat([solved, unsolved, myopic])).set_index("approach")
    assert summary["regret"].to_dict() == {"aliasing": 0.125, "filtering": 0}
    assert summary["zero_from"].dropna().to_dict() == {"filtering": 10_000}
