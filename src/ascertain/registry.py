"""One registry for every kind of part: methods, restorers, mechanisms, datasets and predictors.

Each kind has a package with the same three verbs, `register`, `get` and `names`, and an entry-point group of
the package's name, by which installed packages make their parts known.
"""

import re
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Generic, TypeVar

from ascertain.errors import InputError, did_you_mean

_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")  # names go into the names of files
_RESERVED = "predictor"


@dataclass(frozen=True)
class NoSettings:
    """For parts that have nothing to set.

    Examples
    --------
    >>> from ascertain import methods
    >>> methods.get("stop").settings()
    NoSettings()
    """


@dataclass(frozen=True, kw_only=True)
class Part:
    """What every registered part has.

    Parameters
    ----------
    name
        What users type.
    summary
        One line about it.
    label
        What figures and tables call it.
    fit
        The registered function.
    settings
        The frozen dataclass of its settings, with defaults.
    on_host
        Whether it runs outside compiled programs, one replicate at a time, as scikit-learn's models do.

    Examples
    --------
    >>> from ascertain import restoration
    >>> deck = restoration.get("hotdeck")
    >>> deck.name, deck.label, deck.on_host
    ('hotdeck', 'hot deck', False)
    """

    name: str
    summary: str
    label: str
    fit: Callable[..., Any]
    settings: Callable[[], Any] = NoSettings
    on_host: bool = False


@dataclass(frozen=True)
class SharedModel:
    """A model that several parts begin with; studies fit it once for all of them.

    Parameters
    ----------
    name
        The stage of a study that fits it.
    settings_name
        Its table under `[settings]` in study files.
    fit
        `fit(key, problem, train, valid, settings)`, pure.
    settings
        The dataclass of its settings.
    training
        Takes what `fit` takes, and returns a training that can be interrupted (`_core.training.Training`) and
        leads to the same model. Then a model that has stopped leaves its place in a program to the next one.
        None: all models of a chunk are trained until the last one has stopped.

    Examples
    --------
    >>> from ascertain import methods, restoration
    >>> restoration.get("pvae").shares.settings_name  # ODIN begins with the same Partial VAE
    'pvae'
    >>> methods.get("odin").shares is restoration.get("pvae").shares
    True
    """

    name: str
    settings_name: str
    fit: Callable[..., Any]
    settings: Callable[[], Any]
    training: Callable[..., Any] | None = None


P = TypeVar("P", bound=Part)
Function = TypeVar("Function", bound=Callable[..., Any])


class Registry(Generic[P]):
    """The parts of one kind by name.

    Parameters
    ----------
    kind
        What messages call a part: "method".
    package
        The package that holds ours, and the entry-point group of others: "ascertain.methods".
    modules
        The package's modules that register parts, in the order in which these are listed.
    part
        Makes a part from its fields.

    Examples
    --------
    >>> registry = Registry("colour", "ascertain.colours", [], Part)
    >>> @registry.register("red", summary="The colour of blood.", label=None, settings=NoSettings)
    ... def fit_red():
    ...     pass
    >>> registry.get("red").summary
    'The colour of blood.'
    """

    def __init__(self, kind: str, package: str, modules: Sequence[str], part: Callable[..., P]):
        self.kind, self.package, self._part = kind, package, part
        self._modules = tuple(f"{package}.{module}" for module in modules)
        self._parts: dict[str, P] = {}
        self._loading = self._loaded = False
        self._lock = threading.RLock()  # studies look parts up in several threads

    def add(self, part: P) -> None:
        """Register a part; registering the same function again, as a reload does, replaces it."""
        if not _NAME.fullmatch(part.name) or part.name == _RESERVED:
            raise InputError(
                f"a {self.kind} cannot be called {part.name!r}: use small letters, digits and underscores, "
                f"and not {_RESERVED!r}, which study files use for the fixed predictor"
            )
        known = self._parts.get(part.name)
        if known is not None and _origin(known.fit) != _origin(part.fit):
            raise InputError(f"{self.kind} {part.name!r} is already registered by {known.fit.__module__}")
        self._parts[part.name] = part

    def register(
        self, name: str, *, summary: str | None, label: str | None, **fields: Any
    ) -> Callable[[Function], Function]:
        """A decorator that registers a function, or a class by its method `fit`.

        The summary is by default the first line of its docstring, and the label the name.
        """

        def add(function: Function) -> Function:
            fit = getattr(function, "fit") if isinstance(function, type) else function  # noqa: B009
            line = summary or (function.__doc__ or "").strip().partition("\n")[0]
            self.add(self._part(name=name, summary=line, label=label or name, fit=fit, **fields))
            return function

        return add

    def get(self, name: str) -> P:
        """Look up a part; an unknown name raises an `InputError` that suggests a known one.

        Examples
        --------
        >>> from ascertain import methods
        >>> methods.get("gdfs").label
        'GDFS'
        >>> methods.get("gdsf")
        Traceback (most recent call last):
        ...
        ascertain.errors.InputError: no method is called 'gdsf'; did you mean 'gdfs'?
        """
        self._load()
        if name not in self._parts:
            raise InputError(f"no {self.kind} is called {name!r}; {did_you_mean(name, self.names())}")
        return self._parts[name]

    def find(self, part: str | Callable[..., Any]) -> P:
        """Look up a part by its name or by the function that was registered."""
        if isinstance(part, str):
            return self.get(part)
        self._load()
        for known in self._parts.values():
            if known.fit is part or known.fit == getattr(part, "fit", None):
                return known
        name = getattr(part, "__name__", part)
        raise InputError(f"{name} is not a registered {self.kind}; decorate it with {self.package}.register")

    def names(self) -> tuple[str, ...]:
        """All names: ours in the order of the documentation, then those of others.

        Examples
        --------
        >>> from ascertain import missingness
        >>> missingness.names()[:4]
        ('mcar', 'mar', 'mnar_logistic', 'mnar_self')
        """
        self._load()
        own = tuple(name for name, part in self._parts.items() if part.fit.__module__ in self._modules)
        order = {name: self._modules.index(self._parts[name].fit.__module__) for name in own}
        others = tuple(name for name in self._parts if name not in order)
        return (*sorted(own, key=order.__getitem__), *others)

    def _load(self) -> None:
        if self._loaded:
            return
        with self._lock:
            if self._loaded or self._loading:  # a module that is being loaded may look a part up
                return
            self._loading = True
            try:
                self._import()
                self._loaded = True
            finally:
                self._loading = False

    def _import(self) -> None:
        for module in self._modules:
            import_module(module)
        for entry in entry_points(group=self.package):
            try:
                entry.load()
            except Exception as error:  # a broken plugin must not take the other parts with it
                owner = entry.dist.name if entry.dist is not None else entry.value
                warnings.warn(f"the {self.kind}s of {owner} could not be loaded: {error!r}", stacklevel=3)


def load_plugin(file: str | Path) -> None:
    """Run a Python file that registers parts, as importing a module does.

    `ascertain --plugin mine.py study run mine.toml` does this first.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from ascertain import datasets
    >>> text = "from ascertain.datasets import *; register('small_cube', summary='Small.')(lambda: cube(100))"
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "mine.py"
    ...     _ = file.write_text(text)
    ...     load_plugin(file)
    >>> len(datasets.load("small_cube").draw(0).y)
    100
    """
    path = Path(file)
    spec = spec_from_file_location(f"ascertain_plugin_{path.stem}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file; name one that registers parts")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the plugin {path} could not be loaded: {error!r}") from error


def _origin(function: Callable[..., Any]) -> tuple[str, str]:
    return function.__module__, function.__qualname__
