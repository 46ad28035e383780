"""What is released: a wheel and a source distribution, and the command that they install."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import ascertain

ROOT = Path(__file__).parents[1]
OTHERS = [version for version in ("3.13", "3.12", "3.11") if version != "{}.{}".format(*sys.version_info)]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    # Without isolation nothing is downloaded.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def installed(released: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that has the wheel, and of the source tree nothing."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    (wheel,) = released.glob("*.whl")
    install = ["--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, capture_output=True)
    # What the package needs comes from here. A path in a .pth file is searched, but the .pth files there are
    # not read, so that an editable installation of the source tree stays out.
    found = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    Path(found.stdout.strip(), "needs.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def test_the_wheel_holds_every_file_of_the_package(released: Path) -> None:
    (wheel,) = released.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "ascertain"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    wanted = {str(path.relative_to(package.parent)) for path in files}
    assert wanted - held == set()
    # Named one by one, since nothing else would notice if they moved out of the package.
    assert {"ascertain/py.typed", "ascertain/study/files/paper.toml", "ascertain/serve/page.html"} <= held
    assert any(name.startswith("ascertain/analysis/") and name.endswith(".html") for name in held)
    assert not any(name.startswith(("tests/", "tools/", "docs/")) for name in held)


def test_the_source_distribution_holds_what_its_users_need(released: Path) -> None:
    (archive,) = released.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        held = {name.partition("/")[2] for name in content.getnames()}
    for name in (
        "LICENSE",
        "CITATION.cff",
        "CHANGELOG.md",
        "Makefile",
        "docs/practice.md",
        "tests/test_packaging.py",
    ):
        assert name in held
    assert "examples/first_table.py" in held


@pytest.mark.slow
def test_the_installed_command_works_without_the_source_tree(installed: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        ran = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=False, env={})
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    where = run(str(installed / "python"), "-c", "import ascertain; print(ascertain.__file__)")
    assert str(ROOT) not in where
    assert ascertain.__version__ in run(str(installed / "ascertain"), "--version")
    assert "30" in run(str(installed / "ascertain"), "study", "plan", "quick")


# What an older or newer Python, or a newer version of what the package needs, would break first.
USE = """
import pandas as pd
from ascertain import AcquisitionClassifier

table = pd.DataFrame({"a": [0, 1, None, None] * 20, "b": ["x", "y", "x", "y"] * 20})
model = AcquisitionClassifier(method="static", effort="low", budget=1, random_state=0)
model.fit(table, [0, 1] * 40).save("model")
new = pd.DataFrame({"a": [None], "b": [None]})
print(AcquisitionClassifier.load("model").recommend(new)["action"][0])
"""


def usable_python(version: str) -> Path | None:
    """An interpreter of this version that can make environments, if the machine has one.

    pyenv has a command for each version that it ever installed, which fails unless that version is selected.
    """
    kept = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, kept.glob(f"{version}.*/bin/python"))]
    look = "import ensurepip, sys, venv; print('{}.{}'.format(*sys.version_info))"
    for path in filter(None, candidates):
        try:
            ran = subprocess.run([path, "-c", look], capture_output=True, text=True, check=False, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if ran.returncode == 0 and ran.stdout.strip() == version:
            return Path(path)
    return None


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment_of_another_python(released: Path, tmp_path: Path) -> None:
    """The newest other one stands for all: what the package needs is newest there, too."""
    python = next(filter(None, map(usable_python, OTHERS)), None)
    if python is None:
        pytest.skip(f"none of these can be had here: Python {', '.join(OTHERS)}")
    settings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "XLA_FLAGS")}
    # Downloads are kept where the user has them, not in the cache of the tests.
    with_downloads = {name: value for name, value in settings.items() if name != "XDG_CACHE_HOME"}
    folder, (wheel,) = tmp_path / "environment", released.glob("*.whl")
    own = folder / "bin" / "python"

    def run(*command: str | Path, env: dict[str, str] = settings) -> str:
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=env)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    run(python, "-m", "venv", folder)
    pip = (str(own), "-m", "pip", "--quiet", "--disable-pip-version-check")
    small = [*pip, "download", "--no-deps", "--dest", "small", "platformdirs"]
    if subprocess.run(small, cwd=tmp_path, capture_output=True, check=False, env=with_downloads).returncode:
        pytest.skip("no packages can be had here")
    run(*pip, "install", wheel, env=with_downloads)
    where = run(own, "-W", "error", "-c", "import ascertain; print(ascertain.__file__)")
    assert where.startswith(str(folder))
    assert "30" in run(folder / "bin" / "ascertain", "study", "plan", "quick")
    assert run(own, "-W", "error", "-c", USE).strip() in ("a", "b")
