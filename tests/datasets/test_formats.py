"""Loaders on small files in the formats of the real ones: good, damaged, and with known digests."""

import gzip
import importlib
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from ascertain.datasets import Dataset, load
from ascertain.datasets._sources import Source
from ascertain.errors import StoreError

N = 40
HALVES = (N // 2, N // 2)
RNG = np.random.default_rng(0)


class Format(NamedTuple):
    """A small file of a dataset: where it lies, what it holds, and a column with a feature."""

    dataset: str
    path: str
    text: str
    feature: str
    constants: dict[str, object]  # of the dataset's module, for so small a file
    separator: str = ","
    header: bool = True


def frame(features: list[str], **columns: Any) -> pd.DataFrame:
    """Random features, the given columns after them."""
    made = pd.DataFrame(RNG.normal(10, 2, (N, len(features))).round(4), columns=features)
    return made.assign(**columns)


def csv(table: pd.DataFrame, **how: object) -> str:
    written = io.StringIO()
    table.to_csv(written, **({"index": False} | how))  # type: ignore[call-overload]
    return written.getvalue()


def module(dataset: str) -> ModuleType:
    name = "heart_disease" if dataset == "heart_sites" else dataset
    return importlib.import_module(f"ascertain.datasets._{name}")


def classes() -> np.ndarray:
    return RNG.permutation(np.arange(N) % 2)


def heart_text() -> str:
    table = frame([*module("heart_disease").FEATURES], num=classes() * RNG.integers(1, 5, N))
    table.loc[0, "ca"] = np.nan
    return csv(table, header=False, na_rep="?")


def t2d_frame() -> pd.DataFrame:
    names = list(module("nhanes_t2d")._MEASURED)
    extra = [f"extra{i}" for i in range(44 - len(names) - 3)]
    glucose = np.repeat([100 / 18.0182 - 1e-6, 6.0, 125 / 18.0182 + 1e-6, np.nan], N // 4)
    table = frame(names + extra, ethnicity=np.arange(N) % 5 + 1, glucose=glucose, survey_nr=9)
    table.loc[:3, "education"] = [7, 9, 5, 1]
    return table


def actg_frame() -> pd.DataFrame:
    uci = {"time": "days", "trt": "arms"}
    names = [uci.get(name, name) for name in module("actg175").FEATURES]
    return frame(["", "pidnum", *names, "cd496", "r"], cens=classes())


def coai_features() -> list[str]:
    """118 columns: each measurement, and indicators of some."""
    measured = [name for _, names in module("nhanes_mortality")._PANELS.values() for name in names]
    indicators = [f"{name}_is{what}" for what in ("Blank", "Missing", "Unacceptable") for name in measured]
    return (measured + indicators)[:118]


def small_heart() -> dict[str, object]:
    return {"_CLASSES": dict.fromkeys(module("heart_disease")._FILES, HALVES)}


FORMATS = {
    "actg175": Format(
        *("actg175", "actg175/ACTG175.csv", csv(actg_frame()), "age"),
        {"_SHAPE": (N, 28), "_CLASSES": HALVES},
    ),
    "heart_disease": Format(
        *("heart_disease", "heart_disease/processed.cleveland.data", heart_text(), "chol", small_heart()),
        header=False,
    ),
    "nhanes_mortality": Format(
        "nhanes_mortality",
        "nhanes_mortality/X_nhanes_binary.csv",
        csv(frame(["", *coai_features()])),
        "bun",
        {"_CLASSES": HALVES},
    ),
    "diabetes": Format(
        "diabetes",
        "diabetes/diabetes.csv",
        csv(frame([f"column{i}" for i in range(45)], Outcome=np.arange(N) % 3)),
        "column7",
        {"_ROWS": N},
    ),
    "miniboone": Format(
        "miniboone",
        "miniboone/miniboone.csv",
        csv(frame([f"ParticleID_{i}" for i in range(50)], signal=classes())),
        "ParticleID_3",
        {"_CLASSES": HALVES},
    ),
    "miniboone (UCI)": Format(
        "miniboone",
        "miniboone/MiniBooNE_PID.txt",
        f"  {N // 2}  {N // 2}\n" + csv(frame([f"p{i}" for i in range(50)]), header=False, sep=" "),
        "p3",
        {"_CLASSES": HALVES},
        " ",
        header=False,
    ),
    "magic": Format(
        "magic",
        "miniboone_substitutes/magic.csv",
        csv(frame([*module("magic").FEATURES], **{"class": np.array(["h", "g"])[classes()]})),
        "fSize",
        {"_CLASSES": HALVES},
    ),
    "magic (UCI)": Format(
        "magic",
        "magic/magic04.data",
        csv(frame([*module("magic").FEATURES], **{"class": np.array(["h", "g"])[classes()]}), header=False),
        "fSize",
        {"_CLASSES": HALVES},
        header=False,
    ),
    "physionet2012": Format(
        "physionet2012",
        "physionet2012/physionet.csv",
        csv(frame([*module("physionet2012").FEATURES], Outcome=classes())),
        "pH",
        {"_CLASSES": HALVES},
    ),
    "nhanes_i": Format(
        "nhanes_i",
        "nhanes_mortality/NHANESI_subset_X.csv",
        csv(pd.DataFrame(frame([*module("nhanes_i").FEATURES])), index=True),
        "TIBC",
        {"_ROWS": N, "_CLASSES": (N // 4, N // 2)},
    ),
    "nhanes_t2d": Format(
        "nhanes_t2d",
        "diabetes/nhanes_t2d_1999_2018.csv",
        csv(t2d_frame()),
        "BMI",
        {"_SHAPE": (N, 44), "_CLASSES": (N // 4,) * 3},
    ),
}


@pytest.fixture
def folder(tmp_path: Path, user_folder: Path) -> Path:
    """A folder of data with what the formats do not hold: labels in files of their own, other sites."""
    made = tmp_path / "data"
    for form in FORMATS.values():
        (made / form.path).parent.mkdir(parents=True, exist_ok=True)
    np.save(made / "nhanes_mortality" / "y_nhanes_binary.npy", np.arange(N) % 2.0)
    years = np.resize([20.0, -20.0, 3.0, -3.0], N)  # lived, lived, died, lost sight of
    (made / "nhanes_mortality" / "NHANESI_subset_y.csv").write_text(
        csv(pd.DataFrame({"y": years}), index=True)
    )
    return made


def prepare(form: Format, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str | None = None) -> Path:
    """Write a file, and let its loader expect one of its size, of any digest, and to be found here."""
    owner = module(form.dataset)
    for name, value in form.constants.items():
        monkeypatch.setattr(owner, name, value)
    for name in ("_FILE", "_X_FILE", "_Y_FILE"):
        if hasattr(owner, name):
            monkeypatch.setattr(owner, name, undigested(getattr(owner, name)))
    if form.dataset == "heart_disease":
        monkeypatch.setitem(owner._FILES, "cleveland", undigested(owner._FILES["cleveland"]))
    path = folder / form.path
    path.write_text(form.text if text is None else text)
    return path


def undigested(source: Source) -> Source:
    return replace(source, sha256=None, git_blob=None, url=None)


def each_format(of: Callable[[Format], bool] = lambda _: True) -> pytest.MarkDecorator:
    chosen = {name: form for name, form in FORMATS.items() if of(form)}
    return pytest.mark.parametrize("form", chosen.values(), ids=chosen.keys())


def check(dataset: Dataset, form: Format) -> None:
    x, y = dataset.draw(0)
    assert len(x) == len(y)
    assert dataset.problem.n_features == x.shape[1]
    assert dataset.name == form.dataset
    assert min(np.bincount(y, minlength=dataset.problem.n_classes)) > 0


@each_format()
def test_a_small_file_is_read(form: Format, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(form, folder, monkeypatch)
    dataset = load(form.dataset, folder)
    check(dataset, form)
    assert [len(part.y) for part in dataset.split(0)][2] >= 6


@each_format(lambda form: form.path.endswith(".csv"))
def test_a_compressed_file_is_read_alike(form: Format, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = prepare(form, folder, monkeypatch)
    plain = load(form.dataset, folder).draw(0)
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    compressed = load(form.dataset, folder).draw(0)
    np.testing.assert_array_equal(plain.x, compressed.x)
    np.testing.assert_array_equal(plain.y, compressed.y)


def cut_rows(form: Format) -> str:
    return "".join(form.text.splitlines(keepends=True)[:-3])


def cut_inside_a_row(form: Format) -> str:
    return form.text[: -len(form.text.splitlines()[-1])] + form.text.splitlines()[-1][:12]


def drop_a_column(form: Format) -> str:
    skipped = 1 if form.dataset == "miniboone" and not form.header else 0
    lines = form.text.splitlines()
    return "\n".join(
        [*lines[:skipped], *(form.separator.join(line.split(form.separator)[1:]) for line in lines[skipped:])]
    )


def write_a_word(form: Format) -> str:
    """Put a word where the third row has its fourth number."""
    lines = form.text.splitlines()
    cells = lines[4].split(form.separator)
    cells[3] = "high"
    return "\n".join([*lines[:4], form.separator.join(cells), *lines[5:]])


def rename_a_feature(form: Format) -> str:
    head, rest = form.text.split("\n", 1)
    return head.replace(form.feature, "unheard_of", 1) + "\n" + rest


@each_format()
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda form: "", "cannot be read as a table|starts with ''"),
        (cut_rows, r"has 37 rows and \d+ columns, not 40"),
        (cut_inside_a_row, "ends in the middle of a row"),
        (drop_a_column, r"has 40 rows and \d+ columns, not 40 rows"),
        (write_a_word, r"has 'high' in row [45] of column '.+', which is not a finite number"),
        (lambda form: form.text.replace("\n", ",,\n"), "cannot be read|more cells|columns, not|starts with"),
    ],
    ids=["empty", "rows cut", "row cut", "column dropped", "word", "trailing commas"],
)
def test_a_damaged_file_is_refused(
    form: Format,
    damage: Callable[[Format], str],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = prepare(form, folder, monkeypatch, damage(form))
    with pytest.raises(StoreError, match=message) as caught:
        load(form.dataset, folder)
    assert str(path) in str(caught.value)
    assert "get a fresh copy" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["actg175", "nhanes_mortality", "magic", "physionet2012", "nhanes_i", "nhanes_t2d"]
)
def test_a_file_without_a_feature_is_refused(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(FORMATS[name], folder, monkeypatch, rename_a_feature(FORMATS[name]))
    with pytest.raises(StoreError, match=r"has no column '.+'|has the column 'unheard_of'"):
        load(name, folder)


@each_format(lambda form: form.dataset != "diabetes")  # whose class balance is not known
def test_another_class_balance_is_refused(
    form: Format, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(form, folder, monkeypatch)
    owner = module(form.dataset)
    if form.dataset == "heart_disease":
        monkeypatch.setattr(owner, "_CLASSES", dict.fromkeys(owner._FILES, (19, 21)))
    else:
        first, second, *others = owner._CLASSES
        monkeypatch.setattr(owner, "_CLASSES", (first - 1, second + 1, *others))
    with pytest.raises(StoreError, match=r"rows of its classes, not|starts with"):
        load(form.dataset, folder)


@pytest.mark.parametrize(
    ("name", "kind", "digest"),
    [
        ("actg175", "sha256", "56fba31fa0d7bfbff9667b7149fd96a97c352e72aa582871a62a935e812f0e07"),
        ("heart_disease", "sha256", "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"),
        ("nhanes_mortality", "sha256", "22074d137dadfdf18a949c84f7d5efc6ce68ca731472f2b1cbc7c9d3271af4b4"),
        ("nhanes_mortality", "git blob id", "5dd8543ad05a7b0d39173bc1080b6e6f6d76efa3"),
        ("diabetes", "git blob id", "eb6b124adf8f133e193e0beaf6b30cf543251dcd"),
        ("miniboone", "git blob id", "1c2bee82e8d5d8ca5c1e238c5322456610c63ef6"),
    ],
)
def test_the_known_digests_are_asked_for(
    name: str, kind: str, digest: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = FORMATS[name]
    (folder / form.path).write_text(form.text)
    if (name, kind) == ("nhanes_mortality", "git blob id"):
        owner = module(name)
        monkeypatch.setattr(owner, "_X_FILE", replace(owner._X_FILE, sha256=None))
    with pytest.raises(StoreError, match=f"{form.path}.* {kind} of its content is [0-9a-f]+, not {digest}"):
        load(name, folder)


def test_the_digest_of_the_coai_labels_is_asked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = module("nhanes_mortality")
    known = owner._Y_FILE
    prepare(FORMATS["nhanes_mortality"], folder, monkeypatch)
    monkeypatch.setattr(owner, "_Y_FILE", known)
    with pytest.raises(
        StoreError, match="not 5f6ad190e7a97d37ce1de17a54f912a823b72b60391d2fbdfcfa5491a1561d5e"
    ):
        load("nhanes_mortality", folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as an array"),
        (b"not an array", "cannot be read as an array"),
        (np.zeros((N, 2)), r"has float64 in shape \(40, 2\)"),
        (np.array(["a"] * N), "has <U1 in shape"),
        (np.full(N, 2.0), "has the class 2 in row 1, not one of 0 to 1"),
        (np.zeros(N), r"has \[40, 0\] rows of its classes, not \[20, 20\]"),
    ],
)
def test_damaged_labels_are_refused(
    content: bytes | np.ndarray, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(FORMATS["nhanes_mortality"], folder, monkeypatch)
    path = folder / "nhanes_mortality" / "y_nhanes_binary.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    with pytest.raises(StoreError, match=message):
        load("nhanes_mortality", folder)


def test_rows_of_two_files_must_be_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(FORMATS["nhanes_i"], folder, monkeypatch)
    path = folder / "nhanes_mortality" / "NHANESI_subset_y.csv"
    years = pd.read_csv(path)
    years.iloc[[0, 1]] = years.iloc[[1, 0]].to_numpy()
    path.write_text(csv(years))
    with pytest.raises(StoreError, match=r"numbers its rows otherwise than NHANESI_subset_X\.csv"):
        load("nhanes_i", folder)


def test_nhanes_i_leaves_out_who_was_lost_sight_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(FORMATS["nhanes_i"], folder, monkeypatch)
    assert load("nhanes_i", folder).draw(0).y.tolist() == [1, 1, 0] * (N // 4)


def test_a_diabetes_file_needs_its_target_last_and_all_classes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = FORMATS["diabetes"]
    prepare(form, folder, monkeypatch, form.text.replace("Outcome", "Result"))
    with pytest.raises(StoreError, match="ends in the column 'Result', not in 'Outcome'"):
        load("diabetes", folder)
    names = [f"column{i}" for i in range(45)]
    prepare(form, folder, monkeypatch, csv(frame(names, Outcome=np.arange(N) % 2)))
    with pytest.raises(StoreError, match="has no row of class 2"):
        load("diabetes", folder)


def test_both_layouts_of_miniboone_give_the_same_rows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form = FORMATS["miniboone (UCI)"]
    prepare(form, folder, monkeypatch)
    x, y = load("miniboone", folder).draw(0)
    assert y.tolist() == [1] * (N // 2) + [0] * (N // 2)
    (folder / form.path).unlink()
    table = pd.DataFrame(x).assign(signal=y)
    prepare(FORMATS["miniboone"], folder, monkeypatch, csv(table))
    again = load("miniboone", folder).draw(0)
    np.testing.assert_array_equal(again.x, x)
    np.testing.assert_array_equal(again.y, y)


def test_nhanes_mortality_has_27_panels_and_imputes_by_the_training_rows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.read_csv(io.StringIO(FORMATS["nhanes_mortality"].text))
    table.loc[::3, "bun"] = np.nan
    prepare(FORMATS["nhanes_mortality"], folder, monkeypatch, csv(table))
    dataset = load("nhanes_mortality", folder)
    assert dataset.problem.n_actions == 27
    np.testing.assert_array_equal(dataset.problem.reveals.sum(axis=0), 1)
    train = dataset.split(0).train
    assert train.available.all()
    np.testing.assert_allclose(np.asarray(train.x).mean(axis=0), 0, atol=1e-6)


def test_heart_sites_reads_four_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for site in ("hungarian", "switzerland", "va"):
        (folder / "heart_disease" / f"processed.{site}.data").write_text(heart_text())
    prepare(FORMATS["heart_disease"], folder, monkeypatch)
    x, _ = load("heart_sites", folder).draw(0)
    np.testing.assert_array_equal(x[:, 13:], np.repeat(np.eye(4), N, axis=0))
    assert np.isnan(x).sum() == 4


def test_nhanes_t2d_classes_and_codes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(FORMATS["nhanes_t2d"], folder, monkeypatch)
    dataset = load("nhanes_t2d", folder)
    x, y = dataset.draw(0)
    assert y.tolist() == [c for c in range(3) for _ in range(N // 4)]
    assert dataset.problem.feature_names is not None
    education = x[:4, dataset.problem.feature_names.index("education")]
    np.testing.assert_array_equal(education, [np.nan, np.nan, 5, 1])
