"""The scripts of examples/: every one runs, and has its page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools import gallery

ROOT = Path(__file__).parents[1]
DATA = [pytest.mark.slow, pytest.mark.needs("data")]

# What a script must print, or the file that it must write.
PRINTS = {
    "choose_treatment": r"restricted +accuracy 0\.\d\d.*\ndirect +accuracy 0\.[78]\d, begins with machine",
    "cube_nm": r"complete records +accuracy 0\.\d\d",
    "first_table": r"the loaded model begins with: machine",
    "grid_search": r"the budget that pays: [257]\nbuys \['scan'",
    "heart_sites": r"920 patients",
    "own_method": r"house_order passes the checks\nhouse_order +accuracy",
    "own_page": r"first: pressure\nthen: \w+ \| prediction: ill",
    "physionet2012": r"12,000 patients, 14% died",
    "planner_and_greedy": r"planner:\nmachine \(\d+%\)\n    \w+",
    "prices": r"no needles: scan",
    "rare_outcome": r"(ipw|dr): 0\.\d+ to 0\.\d+ holds 0\.\d+",
    "score_restorers": r"nearest +0\.\d+   minus nearest: \+0\.000 ± 0\.000",
    "several_at_once": r"two tests: (first|second) other|two tests: other (first|second)",
    "several_completions": r"the report is completions/report\.html",
    "shortcut": r"aliasing: regret 0\.25\nacquire shortcut",
    "subgroups": r"age below 65 +0\.\d+",
    "wrong_decisions": r"decides 'ill' from a probability of 0\.(09|1)\d? on",
}
WRITES = {
    "planner_and_greedy": "budget-curve.png",
    "several_completions": "main-summary.png",
    "shortcut": "regret.png",
    "subgroups": "subgroups.png",
    "wrong_decisions": "decision-curve.png",
}
NEEDS_DATA = ("heart_sites", "physionet2012")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=DATA if name in NEEDS_DATA else [pytest.mark.slow])
        for name in gallery.names()
    ],
)
def test_a_script_runs_by_itself_from_an_empty_folder(name: str, tmp_path: Path) -> None:
    script = ROOT / "examples" / f"{name}.py"
    environment = os.environ | {"MPLBACKEND": "agg", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-W", "ignore", str(script)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert re.search(PRINTS[name], ran.stdout), ran.stdout
    if name in WRITES:
        assert (tmp_path / WRITES[name]).stat().st_size > 5000


@pytest.mark.parametrize("name", gallery.names())
def test_a_page_shows_what_its_script_printed(name: str) -> None:
    example = gallery.Example.read(name)
    record = example.record
    assert record is not None
    assert example.is_recorded, f"run `python tools/gallery.py {name}`: the script was changed since"
    printed = "\n".join(cell["printed"] for cell in record["cells"])
    assert re.search(PRINTS[name], printed), printed
    page = example.page()
    assert all(cell["printed"] in page for cell in record["cells"])
    pictures = [picture for cell in record["cells"] for picture in cell["pictures"]]
    assert all((gallery.RECORDED / picture).exists() for picture in pictures)


@pytest.mark.parametrize("name", gallery.names())
def test_cells_are_text_and_the_whole_script(name: str) -> None:
    example = gallery.Example.read(name)
    title, text = example.introduction
    assert title
    assert text
    code = [line for cell in example.cells for line in cell.code.splitlines() if line.strip()]
    whole = example.source.split('"""', 2)[2].splitlines()
    assert code == [line for line in whole if line.strip() and not re.match(r"# (%%)?|#$", line)]
    assert all(cell.text for cell in example.cells)
    # Line numbers of errors are those of the script.
    for cell in example.cells:
        first = cell.code.splitlines()[0] if cell.code else None
        assert first is None or example.source.splitlines()[cell.line - 1] == first


def test_the_gallery_lists_every_script() -> None:
    site = (ROOT / "tools" / "site.py").read_text()
    assert [name for name in gallery.names() if f'"{name}"' not in site] == []
