"""Fitted policies on disk: a folder with `model.safetensors` (the numbers) and `model.json` (all the rest).

Nothing that the files hold is ever executed, and the policy's structure is not among it: that is what the
registered method's `fit` gives with the recorded settings on tables of the recorded sizes. It is found by
tracing `fit`, which trains nothing, and the files only fill in the numbers.
"""

import hashlib
import warnings
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import safetensors.numpy
from pydantic import JsonValue, ValidationError, create_model

from ascertain._core.checks import check_count
from ascertain._core.networks import MLP
from ascertain._core.version import __version__
from ascertain.errors import InputError, StoreError
from ascertain.methods import registry
from ascertain.methods.registry import Method, State
from ascertain.models.files import (
    JSON_NAME,
    REMEDY,
    TENSORS_NAME,
    Header,
    MethodRecord,
    PredictorRecord,
    ProblemRecord,
    Provenance,
    Strict,
    TensorsRecord,
    canonical,
    first_finding,
    parse,
    read_files,
    write_files,
)
from ascertain.models.restorers import abstract_table, restorer_like, restorer_record
from ascertain.policy import Policy
from ascertain.predictors.masked_mlp import MaskedMLP, Predictor
from ascertain.problem import Problem, Table
from ascertain.protocol import Protocol
from ascertain.restoration import HotDeck, Restorer


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
        What its `fit` gave.
    problem, settings, state, protocol
        What it was fitted with.
    train_rows, valid_rows
        How many rows it was fitted on.
    data_hash
        The `hash_table` of the training table.
    seed
        What the random key was made of.
    predictor
        The fixed predictor that it was fitted and is to be used with; None if there is none.
    restorer
        What completes rows: a `PVAERestorer` or a `HotDeck`; None if there is none.
    preprocessing
        How rows are prepared: any JSON object, for instance with the mean and deviation of each feature.
        It is kept as it is.
    package_version, created
        Filled in.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import jax.random as jr
    >>> from ascertain import PAPER, Problem, Table
    >>> problem = Problem(np.eye(3), [1, 1, 1], budget=1, n_classes=2)
    >>> table = Table(np.arange(12.0).reshape(4, 3), [0, 0, 1, 1])
    >>> method = registry.get("sequential")
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
    predictor: Predictor | None = None
    restorer: Restorer | None = None
    preprocessing: dict[str, Any] | None = None
    package_version: str = __version__
    created: datetime = field(default_factory=_now)

    @property
    def contains_training_rows(self) -> bool:
        """Whether the policy or the restorer holds the training rows themselves."""
        return registry.get(self.method).keeps_rows or isinstance(self.restorer, HotDeck)


def hash_table(table: Table) -> str:
    """Give the sha256 of a table's arrays, which tells whether two models learned from the same rows."""
    digest = hashlib.sha256()
    for array in (table.x, table.y, table.available):
        values = np.asarray(array)
        digest.update(f"{values.dtype.name}{values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def save_model(path: str | Path, model: SavedModel) -> None:
    """Write a model into a folder, in place of one that is there already.

    However this ends, the folder then holds the old model or the new one. What is to be written is read
    back before, and must give the same model. If it holds the training rows, a warning says so.

    Parameters
    ----------
    path
        The folder; it is made if it is not there.
    model
        The model. The predictor must be one of `fit_predictor`, or None; the restorer one of `fit_pvae` or
        `fit_hotdeck`, or None.
    """
    folder = Path(path)
    method = registry.get(model.method)
    header, tensors = _encode(method, model)
    _rehearse(method, header, tensors, model)
    if header.provenance.contains_training_rows:
        user = f"{model.method} decides by" if method.keeps_rows else "the hot deck completes others from"
        message = (
            f"{folder} will hold the {model.train_rows:,} training rows themselves, because {user} them; do "
            "not give it to anybody who may not see the data"
        )
        warnings.warn(message, UserWarning, stacklevel=2)
    write_files(folder, header, tensors)


def load_model(path: str | Path) -> SavedModel:
    """Read a model from a folder that `save_model` has written.

    On the same device and versions, scores and predictions are those of the saved model to the last bit.
    Files that are damaged, changed, incomplete or of a newer version are refused with a `StoreError`.
    Methods of other packages must be installed, or imported before.

    Parameters
    ----------
    path
        The folder.
    """
    folder = Path(path)
    header, tensors = read_files(folder)
    method = _find_method(folder / JSON_NAME, header)
    try:
        return _decode(method, header, tensors)
    except _Mismatch as error:
        raise StoreError(
            f"{folder / error.file} does not hold what {method.name} can have: {error}{header.versions()}; "
            f"{REMEDY}"
        ) from error


class _Mismatch(Exception):  # noqa: N818
    """What a file holds is not what a method gives: says what, but not where or what to do about it."""

    def __init__(self, file: str, finding: str):
        super().__init__(finding)
        self.file = file


class _Learned(NamedTuple):
    """All that has numbers; they are named by their paths, such as `policy.own.layers[0].weight`."""

    policy: Any
    predictor: Any
    restorer: Any


def _encode(method: Method, model: SavedModel) -> tuple[Header, bytes]:
    """Give the content of both files."""
    method.check_state(model.state)
    predictor = _check_predictor(model.predictor)
    restorer = None if model.restorer is None else restorer_record(model.restorer)
    tensors = _pack(_Learned(model.policy, predictor, model.restorer))
    try:
        header = Header(
            method=MethodRecord(name=method.name, module=method.fit.__module__),
            settings=_settings_to_json(method, model.settings),
            state=model.state,
            protocol=model.protocol,
            problem=ProblemRecord.of(model.problem),
            train_rows=check_count("train_rows", model.train_rows, least=1),
            valid_rows=check_count("valid_rows", model.valid_rows, least=1),
            predictor=None if predictor is None else PredictorRecord(hidden=_hidden(predictor)),
            restorer=restorer,
            preprocessing=model.preprocessing,
            provenance=Provenance(
                package_version=model.package_version,
                created=model.created,
                data_hash=model.data_hash,
                seed=check_count("seed", model.seed, least=0),
                contains_training_rows=model.contains_training_rows,
            ),
            tensors=TensorsRecord.of(tensors),
        )
    except ValidationError as error:
        raise InputError(f"the model cannot be saved as it is: {first_finding(error)}") from error
    return header, tensors


def _decode(method: Method, header: Header, tensors: bytes) -> SavedModel:
    """Give the model that is in both files."""
    try:
        recorded = canonical({"settings": header.settings})
        settings = _settings_model(method).model_validate_json(recorded).settings
        problem = header.problem.problem()
        skeleton = _skeleton(method, settings, problem, header)
    except Exception as error:  # whatever a method makes of settings and sizes that do not suit it
        raise _Mismatch(JSON_NAME, first_finding(error)) from error
    learned = _unpack(tensors, skeleton)
    return SavedModel(
        method=method.name,
        policy=learned.policy,
        problem=problem,
        settings=settings,
        state=header.state,
        protocol=header.protocol,
        train_rows=header.train_rows,
        valid_rows=header.valid_rows,
        data_hash=header.provenance.data_hash,
        seed=header.provenance.seed,
        predictor=learned.predictor,
        restorer=learned.restorer,
        preprocessing=header.preprocessing,
        package_version=header.provenance.package_version,
        created=header.provenance.created,
    )


def _rehearse(method: Method, header: Header, tensors: bytes, model: SavedModel) -> None:
    """Raise unless what is about to be written can be read, and gives the same model."""
    try:
        content = header.text().encode()
    except ValueError as error:  # a text or a number that JSON cannot hold
        raise InputError(f"the model cannot be written as JSON: {error}") from error
    try:
        again = _decode(method, parse(Path(JSON_NAME), content), tensors)
    except (_Mismatch, StoreError) as error:
        raise InputError(
            f"the model is not what {method.name} gives with this problem, predictor, settings, state, "
            f"protocol and number of rows ({error}); save those that it was fitted with"
        ) from error
    for name in ("settings", "protocol", "preprocessing"):
        back, given = getattr(again, name), getattr(model, name)
        if back != given:
            raise InputError(f"the model's {name} would come back as {back!r} instead of {given!r}")
    if not eqx.tree_equal(again.problem, model.problem):
        raise InputError("the model's problem would not come back as it is; make it by Problem(...)")
    if not _alike(again.policy, model.policy):
        raise InputError(
            f"the policy is not what {method.name} gives with this problem, settings, state and protocol "
            "(its static fields differ); save those that it was fitted with"
        )


def _alike(one: Policy, other: Policy) -> bool:
    """Whether two policies differ in numbers at most; the names of a problem inside do not count."""

    def static(policy: Policy) -> Any:
        nameless = jax.tree.map(
            lambda node: node.without_names() if isinstance(node, Problem) else node,
            policy,
            is_leaf=lambda node: isinstance(node, Problem),
        )
        return eqx.filter(nameless, eqx.is_array_like, inverse=True)

    return eqx.tree_equal(static(one), static(other)) is True


def _find_method(file: Path, header: Header) -> Method:
    """Look up the method; nothing is imported because a file names it."""
    name, module = header.method.name, header.method.module
    try:
        method = registry.get(name)
        method.check_state(header.state)
    except InputError as error:
        raise StoreError(
            f"{file} needs the method {name!r} with the state variant {header.state!r}, but {error}. It was "
            f"registered by the module {module}: install the package {module.partition('.')[0]} or, if that "
            "is a file of yours, import it before loading"
        ) from error
    return method


def _skeleton(method: Method, settings: Any, problem: Problem, header: Header) -> _Learned:
    """Trace the fit for the structure of what it gives, with shapes in place of arrays."""
    key = jr.key(0)
    train, valid = (abstract_table(problem, rows) for rows in (header.train_rows, header.valid_rows))
    predictor = pretrained = None
    if header.predictor is not None:
        sizes = (2 * problem.n_features, *header.predictor.hidden, problem.n_classes)
        predictor = eqx.filter_eval_shape(lambda key: MaskedMLP(MLP(sizes, key=key)), key)
    if method.pretrain is not None:
        pretrain = partial(method.pretrain, settings=settings, protocol=header.protocol)
        pretrained = eqx.filter_eval_shape(pretrain, key, problem, train, valid)
    fit = partial(method.fit, settings=settings, state=header.state, protocol=header.protocol)
    policy = eqx.filter_eval_shape(
        fit, key, problem, train, valid, predictor=predictor, pretrained=pretrained
    )
    restorer = None if header.restorer is None else restorer_like(header.restorer, problem)
    return _Learned(policy, predictor, restorer)


def _leaves(learned: _Learned) -> list[tuple[str, Any]]:
    flat, _ = jax.tree_util.tree_flatten_with_path(learned)
    return [(jax.tree_util.keystr(path).removeprefix("."), leaf) for path, leaf in flat]


def _pack(learned: _Learned) -> bytes:
    """Write all arrays as safetensors, by name."""
    arrays = {}
    for name, leaf in _leaves(learned):
        if not eqx.is_array_like(leaf):
            continue
        if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.extended):
            raise InputError(f"{name} is a random key, which cannot be saved; keep its jax.random.key_data")
        arrays[name] = np.array(jnp.asarray(leaf), order="C")
        if _has_nan(arrays[name]):
            raise InputError(f"{name} holds NaN, so the model is of no use; did its training diverge?")
    return safetensors.numpy.save(arrays)


def _unpack(tensors: bytes, skeleton: _Learned) -> _Learned:
    """Put arrays into a skeleton: one into each place, of its shape and type, and none left over."""
    try:
        arrays = safetensors.numpy.load(tensors)
    except Exception as error:  # whatever the reader makes of forged bytes
        raise _Mismatch(TENSORS_NAME, str(error)) from error

    def fill(name: str, leaf: Any) -> Any:
        if not (eqx.is_array_like(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)):
            return leaf
        if name not in arrays:
            raise _Mismatch(TENSORS_NAME, f"{name} is missing")
        array, shape, dtype = arrays.pop(name), np.shape(leaf), jnp.result_type(leaf)
        if array.shape != shape or array.dtype != dtype:
            found = f"{array.dtype}{array.shape} instead of {dtype}{shape}"
            raise _Mismatch(TENSORS_NAME, f"{name} is {found}")
        if _has_nan(array):
            raise _Mismatch(TENSORS_NAME, f"{name} holds NaN")
        return jnp.array(array)

    filled = [fill(name, leaf) for name, leaf in _leaves(skeleton)]
    for name in sorted(arrays)[:1]:
        raise _Mismatch(TENSORS_NAME, f"{name} has no place in it")
    learned: _Learned = jax.tree.unflatten(jax.tree.structure(skeleton), filled)
    return learned


def _has_nan(array: np.ndarray) -> bool:
    # Infinities are no mistake: a threshold that is never to be reached is infinite.
    return bool(np.issubdtype(array.dtype, np.inexact) and np.isnan(array).any())


def _settings_model(method: Method) -> Any:
    """Give a pydantic model that holds the method's settings, usually a dataclass, to strictness."""
    return create_model("Settings", __base__=Strict, settings=(type(method.settings()), ...))


def _settings_to_json(method: Method, settings: Any) -> JsonValue:
    found, wanted = type(settings), type(method.settings())
    if found is not wanted:
        raise InputError(f"the settings are {found.__name__}, but {method.name} takes {wanted.__name__}")
    try:
        holder = _settings_model(method)(settings=settings)
        value: JsonValue = holder.model_dump(mode="json", warnings="error")["settings"]
    except Exception as error:  # pydantic has many, for types that JSON cannot hold
        raise InputError(
            f"the settings of {method.name} cannot be written as JSON ({first_finding(error)}); make them a "
            "dataclass of numbers, texts, tuples and other such dataclasses"
        ) from error
    return value


def _check_predictor(predictor: Predictor | None) -> MaskedMLP | None:
    if predictor is None or type(predictor) is MaskedMLP:  # a subclass would come back without what it adds
        return predictor
    raise InputError(
        f"a {type(predictor).__name__} cannot be saved as the predictor, only a MaskedMLP, which "
        "`fit_predictor` gives; save the model without it, and give it again after loading"
    )


def _hidden(predictor: MaskedMLP) -> tuple[int, ...]:
    return tuple(layer.weight.shape[-1] for layer in predictor.network.layers[:-1])
