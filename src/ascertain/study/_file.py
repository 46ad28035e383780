"""Study files: what to run, as TOML that is checked before anything is computed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ascertain import datasets, methods
from ascertain._core.files import replacing
from ascertain._core.toml import parse_toml
from ascertain.datasets._dataset import Dataset
from ascertain.errors import InputError, did_you_mean
from ascertain.evaluation._auto import AUTO
from ascertain.recipe._jobs import TrainingData
from ascertain.recipe._materials import Scored
from ascertain.restoration._registry import MOST_COMPLETIONS, Restoring
from ascertain.restoration._treatments import PAPERS, Treatment
from ascertain.study._checks import check_study

Names = tuple[str, ...]
Chosen = Literal["auto"]
_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)


class OwnSetup(BaseModel):
    """A set-up that tests share: the first that needs it pays for it, later ones do not."""

    model_config = _STRICT

    cost: float | int
    columns: Names


class OwnTable(BaseModel):
    """A table of the user's own: `[tables.NAME]` in a study file.

    Attributes
    ----------
    path
        A CSV or Parquet file; a relative path starts at the study file's folder.
    target
        The column of the class.
    costs
        A price for each column or panel by name, or the path of a price list; by default 1 each.
    default_cost
        What a column costs that `costs` does not list.
    budgets
        The budgets that policies are evaluated at; the largest is trained for.
    known
        Columns that are known from the start, at no cost.
    groups
        Panels: the columns that are measured together, by the panel's name.
    setup
        Set-ups that tests share, by name, each with its `cost` and `columns`; or the path of a list of them.
        By default, those of the price list if it has any.
    """

    model_config = _STRICT

    path: str
    target: str
    costs: dict[str, float | int] | str | None = None
    default_cost: float | int | None = None
    budgets: tuple[float | int, ...] = Field(min_length=1)
    known: Names = ()
    groups: dict[str, Names] = {}
    setup: dict[str, OwnSetup] | str | None = None

    def load(self, name: str) -> Dataset:
        """Read the table as a dataset."""
        costs = Path(self.costs) if isinstance(self.costs, str) else self.costs
        return datasets.from_file(
            self.path,
            target=self.target,
            costs=costs,
            default_cost=self.default_cost,
            budgets=[float(budget) for budget in self.budgets],
            known=self.known,
            groups=self.groups,
            setup=self._setup(),
            name=name,
        )

    def relative_to(self, folder: Path) -> "OwnTable":
        """The same table with absolute paths."""
        changes: dict[str, Any] = {"path": str((folder / self.path).resolve())}
        if isinstance(self.costs, str):
            changes["costs"] = str((folder / self.costs).resolve())
        if isinstance(self.setup, str):
            changes["setup"] = str((folder / self.setup).resolve())
        return self.model_copy(update=changes)

    def _setup(self) -> Any:
        if isinstance(self.setup, str) or self.setup is None:
            return self.setup
        return {name: each.model_dump() for name, each in self.setup.items()}


class Study(BaseModel):
    """The cells of a study, and how each is computed.

    Attributes
    ----------
    name
        What the report calls it.
    protocol
        `paper` or `afabench`.
    datasets
        Registered names, and those of `tables`.
    tables
        Tables of the user's own, by name.
    methods
        Registered names; `jafa` means all of its state variants, `jafa:sm` one.
    treatments
        `complete`, `restricted`, `restored` (by default all of these that a dataset allows), `direct` for
        methods that have it, and `auto`. Complete data are trained on once, whatever the mechanisms and
        rates. `auto` trains nothing: it chooses among the others by the masked validation rows.
    restorers, rates, splits
        Each combination is a cell. `ensemble:6` restores every training row six times.
    completions
        How often every training row is restored by restorers that do not say it themselves.
    mechanisms
        What hides cells; by default `mcar`, and nothing where a dataset has holes of its own.
    holes
        Pairs of mechanism and rate, in place of all combinations of `mechanisms` and `rates`.
    budgets
        Budgets to evaluate in place of a dataset's own, by dataset; the largest is trained for.
    scored
        Whether policies are evaluated on the rows that chose checkpoints (`valid`, the paper's way), on
        `test` rows, or on `both`: then `test_score` stands beside the scores of validation rows. A dataset
        with holes is always scored by estimates on test rows.
    predictor
        The fixed predictor by name.
    settings
        Changes of the paper's settings, by method, restorer or `predictor`.
    routes
        Whether to measure fixed routes too (table 1 of the paper); by default if rows are complete.
    seed
        Enters every random key.

    Examples
    --------
    >>> study = Study(name="mine", datasets=("cube",), methods=("gdfs", "jafa:sm"))
    >>> study.variants
    [('gdfs', 's'), ('jafa', 'sm')]
    """

    model_config = _STRICT

    name: str = Field(min_length=1)
    protocol: Literal["paper", "afabench"] = "paper"
    datasets: Names = Field(min_length=1)
    methods: Names = Field(min_length=1)
    treatments: tuple[Treatment | Chosen, ...] | None = Field(None, min_length=1)
    restorers: Names = ("pvae",)
    completions: int = Field(1, ge=1, le=MOST_COMPLETIONS)
    mechanisms: Names | None = None
    rates: tuple[float, ...] = (0.7,)
    holes: tuple[tuple[str, float], ...] | None = None
    splits: tuple[int, ...] = Field((0, 1, 2, 3, 4), min_length=1)
    budgets: dict[str, tuple[float, ...]] = {}
    scored: Scored = "valid"
    predictor: str = "mlp"
    settings: dict[str, dict[str, Any]] = {}
    tables: dict[str, OwnTable] = {}
    routes: bool | None = None
    seed: int = Field(0, ge=0, lt=2**32)

    @property
    def variants(self) -> list[tuple[str, str]]:
        """The methods with the state variants asked for, in order."""
        found = []
        for entry in self.methods:
            name, _, state = entry.partition(":")
            found += [(name, each) for each in ([state] if state else methods.get(name).states)]
        return list(dict.fromkeys(found))

    def training_data(self, has_holes: bool) -> list[TrainingData]:
        """The training sets of a dataset, by treatment, mechanism, rate and restorer."""
        treatments = self.treatments or (PAPERS[1:] if has_holes else PAPERS)
        holes = self._all_holes(has_holes)
        made = []
        for treatment in treatments:
            if treatment == "complete":
                made.append(TrainingData())
            if treatment in ("complete", AUTO):
                continue
            fillers = self._fillers if treatment == "restored" else ("",)
            made += [
                TrainingData(treatment, *hole, filler) for hole in holes or [("", 0.0)] for filler in fillers
            ]
        return made

    def cells(self, has_holes: bool) -> list[tuple[str, str, TrainingData]]:
        """Method, state and training set of each cell of one split of a dataset."""
        data = self.training_data(has_holes)
        return [
            (method, state, made)
            for method, state in self.variants
            for made in data
            # A study may compare methods that learn from holes directly with others.
            if made.treatment != "direct" or methods.get(method).learns_directly
        ]

    @property
    def chooses(self) -> bool:
        """Whether a treatment is chosen among the others."""
        return AUTO in (self.treatments or ())

    def _all_holes(self, has_holes: bool) -> Sequence[tuple[str, float]]:
        """The mechanisms and rates that hide cells of a dataset."""
        if self.holes is not None:
            return self.holes
        mechanisms = self.mechanisms
        if mechanisms is None:
            mechanisms = () if has_holes else ("mcar",)
        return [(mechanism, rate) for mechanism in mechanisms for rate in self.rates]

    @property
    def _fillers(self) -> list[str]:
        """The restorers, each with its number of completions."""
        found = []
        for entry in self.restorers:
            restoring = Restoring.parse(entry)
            found.append(str(restoring if ":" in entry else restoring._replace(completions=self.completions)))
        return list(dict.fromkeys(found))

    def measures_routes(self, has_holes: bool) -> bool:
        """Whether fixed routes of a dataset are measured."""
        return not has_holes if self.routes is None else self.routes

    def load(self, data_dir: Path | None = None) -> dict[str, Dataset]:
        """Load the datasets by name, each with the study's budgets."""
        found = {}
        for name in self.datasets:
            table = self.tables.get(name)
            dataset = datasets.load(name, data_dir) if table is None else table.load(name)
            budgets = self.budgets.get(name)
            found[name] = dataset if budgets is None else dataset.with_budgets(budgets)
        return found

    def narrowed(self, names: Iterable[str] | None, protocol: str | None) -> "Study":
        """The study on some of its datasets only, or under the other protocol."""
        chosen: dict[str, Any] = {} if protocol is None else {"protocol": protocol}
        if names is not None:
            wanted = tuple(names)
            for name in wanted:
                if name not in self.datasets:
                    raise InputError(
                        f"the study has no dataset {name!r}; {did_you_mean(name, self.datasets)}"
                    )
            chosen["datasets"] = wanted
            for key in ("budgets", "tables"):
                kept = self.content()[key]
                chosen[key] = {name: each for name, each in kept.items() if name in wanted}
        return _validated(self.content() | chosen, f"study {self.name!r}")

    def content(self) -> dict[str, Any]:
        """The keys of its file with their values, defaults included."""
        content = self.model_dump(exclude_none=True)
        if self.holes is not None:
            del content["rates"]
        return content


def shipped() -> dict[str, str]:
    """The study files that come with the package: their first comments, by name.

    Examples
    --------
    >>> "paper" in shipped()
    True
    """
    found = {}
    for entry in sorted(resources.files("ascertain.study").joinpath("files").iterdir(), key=lambda e: e.name):
        found[entry.name.removesuffix(".toml")] = entry.read_text().splitlines()[0].lstrip("# ")
    return found


def read_study(source: str | Path) -> Study:
    """Read a study file, or one that comes with the package by its name.

    Examples
    --------
    >>> len(read_study("paper").datasets)
    8
    """
    path = Path(source)
    if path.is_file():
        text = _text_of(path)
    elif str(source).removesuffix(".toml") in shipped():
        name = str(source).removesuffix(".toml")
        text = resources.files("ascertain.study").joinpath("files", f"{name}.toml").read_text()
    else:
        raise InputError(f"there is no study file {source}; the package comes with {', '.join(shipped())}")
    try:
        content = parse_toml(text)
    except ValueError as error:
        raise InputError(f"{source} is not valid TOML: {error}") from error
    study = _validated(content, str(source))
    tables = {name: table.relative_to(path.parent) for name, table in study.tables.items()}
    return study.model_copy(update={"tables": tables})


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not a text in UTF-8: byte {error.start} is {error.object[error.start]:#04x}; save it "
            "as UTF-8"
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error


def write_study(study: Study, path: Path) -> None:
    """Write a study file that `read_study` reads back."""
    with replacing(path) as temporary:
        temporary.write_text(study_text(study), encoding="utf-8")


def study_text(study: Study) -> str:
    """A study as TOML; tables within a table are written on its line."""
    content = study.content()
    tables = {key: content.pop(key) for key in ("budgets", "settings", "tables")}
    lines = [f"{key} = {_toml(value)}" for key, value in content.items()]
    for name, entries in tables.items():
        lines += ["", f"[{name}]"] * bool(entries)
        lines += [f"{_toml(key)} = {_toml(value)}" for key, value in entries.items()]
    return "\n".join(lines) + "\n"


def _validated(content: dict[str, Any], where: str) -> Study:
    try:
        study = Study.model_validate(_tuples(content))
    except ValidationError as error:
        # Report an unknown key first: a misspelt key may be why another one is missing.
        first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        place = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = OwnTable if first["loc"][0] == "tables" else Study
            hint = did_you_mean(str(first["loc"][-1]), known.model_fields)
            raise InputError(f"{where}: no key is called {place!r}; {hint}") from None
        if first["type"] == "missing":
            raise InputError(f"{where}: the key {place!r} is missing") from None
        raise InputError(f"{where}: {place}: {first['msg']}, got {first['input']!r}") from None
    try:
        check_study(study)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    return study


def _tuples(value: Any) -> Any:
    """Replace lists by tuples, at any depth: strict validation takes no list for a tuple."""
    if isinstance(value, Mapping):
        return {key: _tuples(each) for key, each in value.items()}
    return tuple(_tuples(each) for each in value) if isinstance(value, list | tuple) else value


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for one character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)
