"""Fitted policies on disk, each with its predictor, restorer and all the rest in one file.

Nothing in a file is ever executed, and the structure of what was fitted is not among it: that is what the
registered `fit` of each part returns with the recorded settings on tables of the recorded sizes. It is found
by tracing `fit`, which trains nothing, and the file only fills in the numbers.
"""

import hashlib
import warnings
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from pydantic import JsonValue, ValidationError, create_model

from ascertain import methods, predictors, restoration
from ascertain._core.arrays import on_device
from ascertain._core.checks import check_count
from ascertain._core.json import Strict, canonical, first_finding
from ascertain._core.version import __version__
from ascertain.errors import InputError, StoreError
from ascertain.methods._registry import State
from ascertain.models._files import (
    REMEDY,
    Contents,
    Header,
    PartRecord,
    ProblemRecord,
    model_file,
    open_file,
    pack,
    unpack,
    write_file,
)
from ascertain.policy import Policy
from ascertain.predictors._masked_mlp import Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol
from ascertain.registry import Part
from ascertain.restoration import Restorer

_KINDS: dict[str, Any] = {"method": methods, "predictor": predictors, "restorer": restoration}
_SAME = (  # in a file and in a model
    *("state", "protocol", "train_rows", "completions", "valid_rows", "data_hash", "seed", "preprocessing"),
    *("package_version", "created"),
)
_MOST_SETTINGS = 500  # of a part; tracing takes time for each layer


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted policy with all that is needed to use it and to know where it comes from.

    Attributes
    ----------
    method
        The name under which the method is registered.
    policy
        What its `fit` returned.
    problem, settings, state, protocol
        What it was fitted with. Settings that are None, here and below, are the default ones.
    train_rows, valid_rows
        How many rows it was fitted on.
    completions
        How many completions of every training row the policy learned from.
    data_hash
        The `hash_table` of the training table.
    seed
        What the random key was made of.
    predictor
        The fixed predictor that it was fitted and is to be used with; None if there is none.
    restorer
        What completes rows; None if nothing does.
    preprocessing
        How rows are prepared: any JSON object, for instance with the mean and deviation of each feature.
        It is kept as it is.
    predictor_name, restorer_name
        The names under which they are registered.
    predictor_settings, restorer_settings
        What they were fitted with, on as many rows as the policy.
    package_version, created
        Filled in.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import jax.random as jr
    >>> from ascertain import PAPER, Problem, Table, methods
    >>> problem = Problem(np.eye(3), [1, 1, 1], budget=1, n_classes=2)
    >>> table = Table(np.arange(12.0).reshape(4, 3), [0, 0, 1, 1])
    >>> method = methods.get("sequential")
    >>> policy = method.fit(jr.key(7), problem, table, table)
    >>> model = SavedModel(
    ...     "sequential", policy, problem, method.settings(), "s", PAPER,
    ...     train_rows=4, valid_rows=4, data_hash=hash_table(table), seed=7,
    ...     preprocessing={"means": [0.0, 0.0, 0.0]},
    ... )
    >>> with TemporaryDirectory() as folder:
    ...     save_model(folder, model)
    ...     load_model(folder).preprocessing
    {'means': [0.0, 0.0, 0.0]}
    """

    method: str
    policy: Policy
    problem: Problem
    settings: Any
    state: State
    protocol: Protocol
    train_rows: int
    valid_rows: int
    data_hash: str
    seed: int
    completions: int = 1
    predictor: Predictor | None = None
    restorer: Restorer | None = None
    preprocessing: dict[str, Any] | None = None
    predictor_name: str = "mlp"
    predictor_settings: Any = None
    restorer_name: str = ""
    restorer_settings: Any = None
    package_version: str = __version__
    created: datetime = field(default_factory=_now)

    @property
    def contains_training_rows(self) -> bool:
        """Whether the policy or the restorer holds the training rows themselves."""
        return bool(_row_keepers(self))


def hash_table(table: Table) -> str:
    """The sha256 of a table's arrays, which tells whether two models learned from the same rows.

    Examples
    --------
    >>> from ascertain import Table
    >>> hash_table(Table([[0.5, 1.0]], y=[0])) == hash_table(Table([[0.5, 1.1]], y=[0]))
    False
    """
    digest = hashlib.sha256()
    for array in (table.x, table.y, table.available):
        values = np.asarray(array)
        digest.update(f"{values.dtype.name}{values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def save_model(path: str | Path, model: SavedModel) -> None:
    """Write a model to a file, in place of one that is there already.

    However this ends, the old model or the new one is there. What is to be written is read back before, and
    must give the same model. If it holds the training rows, a warning says so.

    Parameters
    ----------
    path
        The file, if the path ends in `.safetensors`; else the folder in which `model.safetensors` is written.
        Folders are made as needed.
    model
        The model. Predictor and restorer must be what registered ones return that run in compiled programs.

    Examples
    --------
    `SavedModel` has an example. A fitted classifier has `save`, as in `examples/first_table.py`.

    >>> import jax.random as jr
    >>> from tempfile import TemporaryDirectory
    >>> from ascertain import PAPER, Problem, Table, methods
    >>> problem, table = Problem([[True]], [1], budget=1, n_classes=2), Table([[0.0], [1.0]], [0, 1])
    >>> policy = methods.fit("stop", jr.key(0), problem, table, table)
    >>> rows = {"train_rows": 2, "valid_rows": 2, "data_hash": hash_table(table), "seed": 0}
    >>> with TemporaryDirectory() as folder:
    ...     save_model(folder, SavedModel("stop", policy, problem, methods.NoSettings(), "s", PAPER, **rows))
    ...     [path.name for path in Path(folder).iterdir()]
    ['model.safetensors']
    """
    file = model_file(path)
    try:
        content = pack(*_encode(model))
    except InputError:
        raise
    except ValueError as error:  # also pydantic's
        raise InputError(f"the model cannot be saved as it is: {first_finding(error)}") from error
    _rehearse(file, content, model)
    if keepers := _row_keepers(model):
        message = (
            f"{file} will hold the {model.train_rows:,} training rows themselves, because "
            f"{' and '.join(keepers)} needs them; do not give it to anybody who may not see the data"
        )
        warnings.warn(message, UserWarning, stacklevel=2)
    write_file(file, content)


def load_model(path: str | Path) -> SavedModel:
    """Read a model that `save_model` has written.

    On the same device and versions, scores and predictions are those of the saved model to the last bit.
    Files that are damaged, changed, incomplete or of a newer format are refused with a `StoreError`. Parts of
    other packages must be installed, or imported before.

    Parameters
    ----------
    path
        The file, or the folder with `model.safetensors`.

    Examples
    --------
    >>> load_model("nothing-here")
    Traceback (most recent call last):
    ...
    ascertain.errors.StoreError: ...

    `SavedModel` has an example that writes a model and reads it again.
    """
    file = model_file(path)
    with open_file(file) as contents:
        header = contents.header
        if header.is_newer:
            what = f"is newer than this package{header.versions} and may mean something else"
            warnings.warn(f"{file} {what}; update it", UserWarning, stacklevel=2)
        try:
            return _decode(contents)
        except _Mismatch as error:
            raise StoreError(
                f"{file} does not hold what {header.method.name} can have: {error}{header.versions}; {REMEDY}"
            ) from error
        except InputError as error:
            raise StoreError(f"{file} cannot be used: {error}") from error


class _Mismatch(Exception):  # noqa: N818
    """What a file holds is not what its parts return: says what, but not where or what to do about it."""


class _Learned(NamedTuple):
    """All that has numbers; they are named by their paths, such as `policy.own.layers[0].weight`."""

    policy: Any
    predictor: Any
    restorer: Any


def _parts(model: SavedModel) -> dict[str, tuple[Part, Any, Any]]:
    """The registered parts of a model by kind, each with its settings and what was fitted."""
    names = {"method": model.method, "predictor": model.predictor_name, "restorer": model.restorer_name}
    fitted = {"method": model.policy, "predictor": model.predictor, "restorer": model.restorer}
    settings = (model.settings, model.predictor_settings, model.restorer_settings)
    return {
        kind: (_KINDS[kind].get(names[kind]), own, fitted[kind])
        for kind, own in zip(_KINDS, settings, strict=True)
        if fitted[kind] is not None
    }


def _row_keepers(model: SavedModel) -> list[str]:
    """The parts that hold training rows, in words."""
    parts = {kind: part for kind, (part, *_) in _parts(model).items()}
    return [f"the {kind} {part.name}" for kind, part in parts.items() if getattr(part, "keeps_rows", False)]


def _encode(model: SavedModel) -> tuple[Header, dict[str, np.ndarray]]:
    methods.get(model.method).check_state(model.state)
    content: dict[str, Any] = {name: getattr(model, name) for name in _SAME}
    for name, least in (("train_rows", 1), ("completions", 1), ("valid_rows", 1), ("seed", 0)):
        content[name] = check_count(name, content[name], least=least)
    if model.restorer is not None and not model.restorer_name:
        raise InputError("the restorer has no name; say by restorer_name under which it is registered")
    content |= dict.fromkeys(_KINDS)
    content |= {kind: _record(kind, *part) for kind, part in _parts(model).items()}
    problem = ProblemRecord.of(model.problem)
    header = Header(**content, problem=problem, contains_training_rows=model.contains_training_rows)
    return header, _arrays(_Learned(model.policy, model.predictor, model.restorer))


def _decode(contents: Contents) -> SavedModel:
    """Build the model; raises an `InputError` if a part is not registered, or else a `_Mismatch`."""
    header = contents.header
    records = {kind: record for kind in _KINDS if (record := getattr(header, kind)) is not None}
    parts = {kind: _find(kind, record) for kind, record in records.items()}
    parts["method"].check_state(header.state)
    try:
        problem = header.problem.problem()
        settings = {kind: _settings(parts[kind], record) for kind, record in records.items()}
        skeleton = _skeleton(header, problem.without_names(), parts, settings)
    except Exception as error:  # whatever a part makes of settings and sizes that do not suit it
        raise _Mismatch(first_finding(error)) from error
    _check_places(skeleton, contents.types)
    return SavedModel(
        method=parts["method"].name,
        settings=settings["method"],
        problem=problem,
        **_filled(skeleton, contents.arrays())._asdict(),
        **{f"{kind}_name": part.name for kind, part in parts.items() if kind != "method"},
        **{f"{kind}_settings": own for kind, own in settings.items() if kind != "method"},
        **{name: getattr(header, name) for name in _SAME},
    )


def _skeleton(header: Header, problem: Problem, parts: dict[str, Any], settings: dict[str, Any]) -> _Learned:
    """Trace the fits for the structure of what they return, with shapes in place of arrays."""
    train, valid = (_abstract_table(problem, rows) for rows in (header.train_rows, header.valid_rows))
    data = (jr.key(0), problem, train, valid)
    predictor = pretrained = restorer = None
    if "predictor" in parts:
        fit = partial(parts["predictor"].fit, settings=settings["predictor"], weights=None)
        predictor = eqx.filter_eval_shape(fit, *data)
    if "restorer" in parts:
        given = {} if parts["restorer"].shares is None else {"pretrained": None}
        fit = partial(parts["restorer"].fit, settings=settings["restorer"], **given)
        restorer = eqx.filter_eval_shape(fit, *data)
    if header.completions > 1:  # only of what the policy learned from
        several = _abstract_table(problem, header.train_rows * header.completions)
        data = (jr.key(0), problem, several.counted(header.completions), valid)
    method, own = parts["method"], {"settings": settings["method"], "protocol": header.protocol}
    if method.pretrain is not None:
        pretrained = eqx.filter_eval_shape(partial(method.pretrain, **own), *data)
    fit = partial(method.fit, state=header.state, **own)
    policy = eqx.filter_eval_shape(fit, *data, predictor=predictor, pretrained=pretrained)
    return _Learned(policy, predictor, restorer)


def _rehearse(file: Path, content: bytes, model: SavedModel) -> None:
    """Raise unless what is about to be written can be read, and gives the same model."""
    try:
        again = _decode(unpack(file, BytesIO(content), len(content)))
    except (_Mismatch, StoreError) as error:
        raise InputError(
            f"the model is not what {model.method} gives with this problem, predictor, settings, state, "
            f"protocol and number of rows ({error}); save those that it was fitted with"
        ) from error
    for name in ("protocol", "preprocessing"):
        if getattr(again, name) != getattr(model, name):
            raise InputError(f"the model's {name} would come back as {getattr(again, name)!r}")
    if not eqx.tree_equal(again.problem, model.problem):
        raise InputError("the model's problem would not come back as it is; make it by Problem(...)")
    both = zip(_parts(again).items(), _parts(model).values(), strict=True)
    for (kind, (_, back, fitted)), (_, own, original) in both:
        if own is not None and back != own:
            raise InputError(f"the {kind}'s settings would come back as {back!r} instead of {own!r}")
        if not _alike(fitted, original):
            raise InputError(
                f"the fitted {kind} is not what this problem, state, protocol and its settings give: its "
                "static fields differ; save those that it was fitted with"
            )


def _alike(one: Any, other: Any) -> bool:
    """Whether two fitted parts differ in numbers at most; the names of a problem inside do not count."""

    def static(tree: Any) -> Any:
        nameless = jax.tree.map(
            lambda node: node.without_names() if isinstance(node, Problem) else node,
            tree,
            is_leaf=lambda node: isinstance(node, Problem),
        )
        return eqx.filter(nameless, eqx.is_array_like, inverse=True)

    return eqx.tree_equal(static(one), static(other)) is True


def _find(kind: str, record: PartRecord) -> Any:
    """Look up a registered part; nothing is imported because a file names it."""
    try:
        return _KINDS[kind].get(record.name)
    except InputError as error:
        raise InputError(
            f"it needs the {kind} {record.name!r}, but {error}. It was registered by {record.module}: "
            f"install the package {record.module.partition('.')[0]}, or import it first if it is your own"
        ) from error


def _abstract_table(problem: Problem, n_rows: int) -> Table:
    """The shape of a table, which takes no memory however many rows are recorded."""
    one_row = Table(np.zeros((1, problem.n_features)), [0], n_classes=problem.n_classes)
    abstract: Table = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct((n_rows, *leaf.shape[1:]), leaf.dtype), one_row
    )
    return abstract


def _leaves(learned: _Learned) -> list[tuple[str, Any]]:
    flat, _ = jax.tree_util.tree_flatten_with_path(learned)
    return [(jax.tree_util.keystr(path).removeprefix("."), leaf) for path, leaf in flat]


def _arrays(learned: _Learned) -> dict[str, np.ndarray]:
    """All arrays by name."""
    arrays = {}
    for name, leaf in _leaves(learned):
        if not eqx.is_array_like(leaf):
            continue
        if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.extended):
            raise InputError(f"{name} is a random key, which cannot be saved; keep its jax.random.key_data")
        arrays[name] = np.array(jnp.asarray(leaf), order="C")
    return arrays


def _is_number(leaf: Any) -> bool:
    """Whether a leaf of a skeleton is the place of an array."""
    return eqx.is_array_like(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def _check_places(skeleton: _Learned, types: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    """Raise unless there is an array for each place, of its type and shape, and none left over."""
    places = {name: leaf for name, leaf in _leaves(skeleton) if _is_number(leaf)}
    for name, leaf in places.items():
        if name not in types:
            raise _Mismatch(f"{name} is missing")
        (kind, shape), (wanted, size) = types[name], (str(jnp.result_type(leaf)), np.shape(leaf))
        if (kind, shape) != (wanted, size):
            raise _Mismatch(f"{name} is {kind}{shape} instead of {wanted}{size}")
    for name in sorted(types.keys() - places)[:1]:
        raise _Mismatch(f"{name} has no place in it")


def _filled(skeleton: _Learned, arrays: dict[str, np.ndarray]) -> _Learned:
    """Put arrays into their places."""

    def fill(name: str, leaf: Any) -> Any:
        if not _is_number(leaf):
            return leaf
        array = arrays[name]
        # A policy's threshold may be infinite: then it is never reached.
        infinite = array.ndim == 0 and name.startswith("policy.") and not np.isnan(array)
        if jnp.issubdtype(array.dtype, jnp.inexact) and not (infinite or np.isfinite(array).all()):
            raise _Mismatch(f"{name} holds NaN or infinite numbers: did its training diverge?")
        return on_device(array)

    filled = [fill(name, leaf) for name, leaf in _leaves(skeleton)]
    learned: _Learned = jax.tree.unflatten(jax.tree.structure(skeleton), filled)
    return learned


def _settings_model(part: Part) -> Any:
    """A pydantic model that holds a part's settings, usually a dataclass, to strictness."""
    return create_model("Settings", __base__=Strict, settings=(type(part.settings()), ...))


def _record(kind: str, part: Part, settings: Any, fitted: Any) -> PartRecord:
    if not getattr(part, "stored", not part.on_host) or jax.tree_util.all_leaves([fitted]):
        raise InputError(
            f"a {type(fitted).__name__} cannot be saved as the {kind} ({part.name}), only PyTrees that a "
            "compiled `fit` returns can; save the model without it, and give it again after loading"
        )
    settings = part.settings() if settings is None else settings
    found, wanted = type(settings), type(part.settings())
    if found is not wanted:
        raise InputError(f"the settings are {found.__name__}, but {part.name} takes {wanted.__name__}")
    try:
        holder = _settings_model(part)(settings=settings)
        value: JsonValue = holder.model_dump(mode="json", warnings="error")["settings"]
    except Exception as error:  # pydantic has many, for types that JSON cannot hold
        raise InputError(
            f"the settings of {part.name} cannot be written as JSON ({first_finding(error)}); make them a "
            "dataclass of numbers, texts, tuples and other such dataclasses"
        ) from error
    return PartRecord(name=part.name, module=part.fit.__module__, settings=value)


def _settings(part: Part, record: PartRecord) -> Any:
    """The settings of a part; raises where they are none, or so many that tracing would take forever."""
    number = len(jax.tree.leaves(record.settings, is_leaf=lambda value: not value))
    if number > _MOST_SETTINGS:
        raise InputError(f"{part.name} has {number:,} settings, more than the {_MOST_SETTINGS} that are read")
    try:
        return _settings_model(part).model_validate_json(canonical({"settings": record.settings})).settings
    except ValidationError as error:
        value = error.errors(include_url=False, include_context=False)[0]["input"]
        # Numbers are told, but not at any length; where a key is missing, it would be all the settings.
        got = f", got {value!r:.40}" if isinstance(value, int | float) else ""
        raise InputError(f"{first_finding(error)}{got}") from error
