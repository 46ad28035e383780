"""Study files: read, refused with a hint, written back."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascertain import methods, predictors, restoration
from ascertain.errors import InputError
from ascertain.recipe._jobs import TrainingData
from ascertain.recipe._presets import overridden
from ascertain.study._checks import check_study
from ascertain.study._file import Study, read_study, shipped, write_study
from tests.study.studies import TOML, tiny


def _read(folder: Path, text: str) -> Study:
    path = folder / "study.toml"
    path.write_text(text)
    return read_study(path)


def test_the_papers_grid_has_9000_cells() -> None:
    study = read_study("paper")
    training_sets = 1 + 2 * len(study.mechanisms or ()) * len(study.rates)
    assert len(study.datasets) * len(study.variants) * len(study.splits) * training_sets == 9000


def test_the_main_figure_is_part_of_the_grid() -> None:
    grid, main = read_study("paper"), read_study("paper-main")
    assert main.variants == grid.variants
    assert (main.datasets, main.splits, main.protocol) == (grid.datasets, grid.splits, grid.protocol)
    assert (main.mechanisms, main.rates) == (("mcar",), (0.7,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TOML + "a = " + "[" * 5000 + "]" * 5000, "nested deeper"),
        (TOML + ".".join(["a"] * 2_000) + " = 1", "nested deeper"),
        ("seed = " + "9" * 5000 + TOML, "too large"),
        (TOML.replace("[0, 1]", "[100000000000000000000]"), "splits are numbered from 0 to 2147483647"),
        (TOML.replace('"hotdeck"', f'"hotdeck:{"9" * 5000}"'), "restorers: 'hotdeck:.*80 bytes at most"),
    ],
    ids=["lists", "dots", "digits", "split", "completions"],
)
def test_what_python_cannot_read_or_hold_is_one_message(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        _read(tmp_path, text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("budgets = [1" + "0" * 400 + "]", "tables.own.budgets has a number that is too large"),
        ("budgets = [1]\ndefault_cost = 1" + "0" * 400, "default_cost has a number that is too large"),
        ('budgets = [1]\ncosts = "a\\u0000"', "tables.own.costs: a path cannot contain the character NUL"),
        ('budgets = [1]\nsetup = "a\\u0000"', "tables.own.setup: a path cannot contain the character NUL"),
    ],
    ids=["budget", "price", "costs", "setup"],
)
def test_paths_and_prices_that_are_none_are_refused(line: str, message: str, tmp_path: Path) -> None:
    text = TOML.replace('"cube_nuc"', '"own"') + f'[tables.own]\npath = "a.csv"\ntarget = "y"\n{line}\n'
    with pytest.raises(InputError, match=message):
        _read(tmp_path, text)


def test_a_budget_too_large_for_a_float_is_refused() -> None:
    table = {"path": "a.csv", "target": "y", "budgets": (10**400,)}
    study = tiny(datasets=("own",), tables={"own": table})
    with pytest.raises(InputError, match=r"tables\.own\.budgets must be one or more positive numbers"):
        check_study(study)


@pytest.mark.parametrize("name", sorted(shipped()))
def test_what_is_shipped_is_valid(name: str) -> None:
    assert read_study(name).name == name


def test_only_the_quick_study_is_shortened() -> None:
    assert {name for name in shipped() if read_study(name).settings} == {"quick"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('methds = ["ol"]', "no key is called 'methds'; did you mean 'methods'?"),
        ("settings.predictor.epoch = 2", "did you mean 'epochs'?"),
        ("settings.gfds.epochs = 2", "did you mean 'gdfs'?"),
        ("settings.odin.vae.latent = 2", "[settings.pvae]"),
        ("rates = [1.5]", "1.5"),
        ('mechanisms = ["mcra"]', "did you mean 'mcar'?"),
        ("budgets.cube = [0.0]", "positive"),
        ("splits = [0, 0]", "splits lists 0 twice"),
        ("splits = [-1]", "from 0"),
        ('protocol = "papr"', "protocol"),
        ("seed = -1", "seed"),
        ('name = ""', "name"),
        ("restorers = []", "restorers"),
        ("mechanisms = []", "mechanisms"),
        ('holes = [["mcra", 0.3]]', "did you mean 'mcar'?"),
        ('holes = [["mcar", 1.5]]', "1.5"),
        ('holes = [["mcar", 0.3], ["mcar", 0.3]]', "holes lists ('mcar', 0.3) twice"),
        ('holes = [["mcar", 0.3]]', "leave rates out"),
        ('holes = ["mcar"]', "holes.0"),
        ('name = "../evil"', "name: '../evil' names files, so it cannot contain /"),
        ('name = ".."', "name: '..' names files, so it must begin with a letter or digit"),
        ('name = "-x"', "must begin with a letter or digit"),
        ('name = "a\\\\b"', "cannot contain \\"),
        ('name = "red\\u001b[31m"', "has a control character"),
        ('name = "a\\nb"', "has a control character"),
        ('name = "turned\\u202eround"', "has a control character"),
        ('name = "x "', "not end in a space or dot"),
        (f'name = "{"x" * 300}"', "80 bytes at most"),
        (
            "settings.predictor.epochs = true",
            "settings.predictor.epochs: Input should be a valid integer, got True",
        ),
        ("settings.predictor.epochs = 0", "greater than or equal to 1, got 0"),
        ("settings.predictor.epochs = 1.5", "settings.predictor.epochs: Input should be a valid integer"),
        (
            "settings.dime.pretraining_epochs = -3",
            "settings.dime.pretraining_epochs: Input should be greater",
        ),
        ("settings.dime.dropout = 1.0", "settings.dime.dropout: Input should be less than 1"),
        ("settings.dime.dropout = nan", "settings.dime.dropout"),
        ("settings.dime.learning_rate = inf", "finite number"),
        (
            "settings.dime.hidden = [8, 0]",
            "settings.dime.hidden[1]: Input should be greater than or equal to 1",
        ),
        ("settings.mixture.components = []", "at least 1 item"),
        ("settings.pvae.encoder = []", "settings.pvae.encoder: Tuple should have at least 1 item"),
        ("settings.dime.hidden = []", "settings.dime.hidden: Tuple should have at least 1 item"),
        ("settings.cwcf.hidden = []", "settings.cwcf.hidden: Tuple should have at least 1 item"),
        ("settings.predictor.epochs = 10000000000000000000000", "less than or equal to 2147483647"),
        ("settings.predictor.hidden = [999999999999]", "hidden[0]: Input should be less than or equal to"),
        ("settings.ensemble.members = []", "settings.ensemble.members: an ensemble needs at least one"),
        ('settings.ensemble.members = ["ensemble"]', "settings.ensemble.members: the restorer 'ensemble' is"),
        (
            'settings.ensemble.members = ["nerest"]',
            "settings.ensemble.members: no restorer is called 'nerest'",
        ),
        ("settings.aaco.may_stop = 1", "settings.aaco.may_stop: Input should be a valid boolean"),
        (
            "settings.pvae.schedule.max_rounds = 0",
            "settings.pvae.schedule.max_rounds: Input should be greater",
        ),
        ("rates = [true]", "rates.0"),
        ("splits = [true]", "splits.0"),
    ],
)
def test_mistakes_are_named_with_what_to_type_instead(tmp_path: Path, line: str, message: str) -> None:
    key = line.split(" = ")[0]
    others = [each for each in TOML.splitlines() if not each.startswith(f"{key} =")]
    text = "\n".join([line, *others])
    if key.startswith("settings.predictor"):
        text = text.replace("[settings.predictor]\nepochs = 1", "")
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        _read(tmp_path, text)
    assert str(tmp_path) in str(caught.value)


def test_a_wrong_type_is_refused_by_name() -> None:
    settings = methods.get("ol").settings()
    with pytest.raises(InputError, match=r"settings.ol.batches.*integer.*'many'"):
        overridden(settings, {"batches": "many"}, "settings.ol")


def test_nested_settings_change_only_what_is_named() -> None:
    settings = methods.get("ol").settings()
    changed = overridden(settings, {"pretraining": {"max_rounds": 3}}, "settings.ol")
    assert changed.pretraining.max_rounds == 3
    assert changed.pretraining.patience == settings.pretraining.patience
    assert changed.batches == settings.batches


def test_what_is_no_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not valid TOML"):
        _read(tmp_path, "name = [")


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(TOML.replace("tiny", "Jörg").encode("latin-1"))
    with pytest.raises(
        InputError, match=r"study.toml is not a text in UTF-8: byte 10 is 0xf6; save it as UTF-8"
    ):
        read_study(path)
    path.write_bytes(b"\xef\xbb\xbf" + TOML.encode())  # as some editors write it
    assert read_study(path).name == "tiny"


@pytest.mark.parametrize("name", ["../x", "a/b", "\x1b[31m"])
def test_a_table_cannot_name_files_elsewhere(name: str) -> None:
    table = {"path": "rows.csv", "target": "y", "budgets": (1,)}
    study = tiny(datasets=(name,), tables={name: table})
    with pytest.raises(InputError, match=r"tables: .* (names files|control character)"):
        check_study(study)


@pytest.mark.parametrize("name", ["tiny", "Größe 2", "a.b_c-d", "2026"])
def test_usual_names_are_fine(name: str) -> None:
    check_study(tiny(name=name))


def test_ranges_hold_for_every_default() -> None:
    """What parts are set to, and what the paper sets, is allowed by the types of their settings."""
    parts: list[Any] = [
        kind.get(name) for kind in (methods, restoration, predictors) for name in kind.names()
    ]
    for part in parts:
        own = part.settings()
        fields = {field.name: getattr(own, field.name) for field in dataclasses.fields(own)}
        assert overridden(own, fields, part.name) == own


def test_a_file_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(InputError, match="paper-main"):
        read_study("papre.toml")


def test_a_method_stands_for_all_its_variants_or_for_one() -> None:
    assert tiny(methods=("ol", "dime")).variants == [("ol", "s"), ("ol", "sm"), ("dime", "s")]
    assert tiny(methods=("ol:sm",)).variants == [("ol", "sm")]


def test_holes_are_pairs_of_mechanism_and_rate() -> None:
    def identities(study: Study) -> list[TrainingData]:
        return study.training_data(has_holes=False)

    some = tiny(rates=(0.3, 0.7), mechanisms=("mcar", "mar"))
    pairs = (("mcar", 0.3), ("mcar", 0.7), ("mar", 0.3), ("mar", 0.7))
    assert identities(with_holes(pairs)) == identities(some)  # the same cells, said otherwise
    fewer = with_holes((("mcar", 0.3), ("mar", 0.7)))
    assert len(identities(fewer)) == 1 + 2 * 2
    assert set(identities(fewer)) < set(identities(some))
    assert fewer.training_data(has_holes=True) == identities(fewer)[1:]


def test_holes_survive_writing_and_narrowing(tmp_path: Path) -> None:
    study = with_holes((("mcar", 0.3), ("mnar_self", 0.7)))
    write_study(study, tmp_path / "study.toml")
    again = read_study(tmp_path / "study.toml")
    assert again == study
    assert again.narrowed(["cube"], "afabench").holes == study.holes


def test_without_holes_there_is_nothing_to_restrict(tmp_path: Path) -> None:
    text = TOML.replace("rates = [0.5]", "holes = []")
    with pytest.raises(InputError, match="at least one of mechanisms and of rates, or holes"):
        _read(tmp_path, text)


def with_holes(holes: tuple[tuple[str, float], ...]) -> Study:
    return Study(**{key: value for key, value in tiny().content().items() if key != "rates"}, holes=holes)


def test_only_methods_that_learn_directly_have_direct_cells() -> None:
    study = tiny(methods=("planner", "random"), treatments=("restricted", "direct"))
    found = {(method, data.treatment) for method, _, data in study.cells(has_holes=False)}
    assert found == {("planner", "restricted"), ("planner", "direct"), ("random", "restricted")}


def test_beyond_is_part_of_its_whole_grid_and_holds_the_papers_policies() -> None:
    beyond, full, paper = read_study("beyond"), read_study("beyond-full"), read_study("paper")
    assert set(beyond.training_data(has_holes=False)) < set(full.training_data(has_holes=False))
    assert beyond.model_copy(update={"name": "", "holes": None}) == full.model_copy(
        update={"name": "", "mechanisms": None, "rates": beyond.rates}
    )
    assert [variant for variant in beyond.variants if variant[0] != "planner"] == paper.variants
    assert set(beyond.datasets) < set(paper.datasets)
    assert (beyond.protocol, beyond.splits) == (paper.protocol, paper.splits)
    cells = [study.cells(has_holes=False) for study in (beyond, full)]
    choices = [len(study.variants) * holes for study, holes in ((beyond, 6), (full, 12))]
    counts = [25 * (len(some) + more) for some, more in zip(cells, choices, strict=True)]
    assert counts == [13_775, 27_275]  # docs/studies.md says so


def test_narrowing_keeps_the_rest() -> None:
    study = tiny(budgets={"cube": (2.0,), "cube_nuc": (3.0,)}).narrowed(["cube"], "afabench")
    assert (study.datasets, study.protocol, dict(study.budgets)) == (("cube",), "afabench", {"cube": (2.0,)})
    with pytest.raises(InputError, match="did you mean 'cube'"):
        tiny().narrowed(["cub"], None)


@settings(deadline=None)  # the first example loads all parts
@given(st.text(min_size=1), st.lists(st.integers(0, 9), min_size=1, unique=True), st.integers(0, 2**32 - 1))
def test_what_is_written_is_read_back(text: str, splits: list[int], seed: int) -> None:
    import tempfile

    mine = {"path": "/rows.csv", "target": text, "budgets": (1,), "groups": {text: (text,)}}
    own = {"datasets": ("cube", "mine"), "tables": {"mine": mine}, "budgets": {"cube": (2.0, 3.5)}}
    study = tiny(splits=tuple(splits), seed=seed, **own)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        write_study(study, path)
        assert read_study(path) == study
