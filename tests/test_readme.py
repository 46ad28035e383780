"""The first example of the README."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.slow
def test_the_first_example_recommends_what_the_readme_shows() -> None:
    program, shown = re.findall(r"```(?:python)?\n(.*?)```", README.read_text(), re.DOTALL)[:2]
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    found, expected = ([line.split() for line in text.splitlines()] for text in (ran.stdout, shown))
    assert found[0] == expected[0]  # the columns
    for row, wanted in zip(found[1:], expected[1:], strict=True):
        assert row[:3] == wanted[:3]  # what to measure, and its price
        # Rounding differs between machines, and training amplifies it.
        assert [float(each) for each in row[4:]] == pytest.approx(
            [float(each) for each in wanted[4:]], abs=0.1
        )
