"""Active feature acquisition: which costly feature to measure next, learned from incomplete training data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ascertain import exact as exact
from ascertain._core.compilation import enable_cache as enable_cache
from ascertain._core.version import __version__ as __version__
from ascertain.errors import AscertainError as AscertainError
from ascertain.errors import InputError as InputError
from ascertain.errors import StoreError as StoreError
from ascertain.errors import TooLargeError as TooLargeError
from ascertain.problem import Problem as Problem
from ascertain.problem import Table as Table
from ascertain.protocol import AFABENCH as AFABENCH
from ascertain.protocol import PAPER as PAPER
from ascertain.protocol import Protocol as Protocol

if TYPE_CHECKING:
    from ascertain.acquisition import acquire as acquire
    from ascertain.datasets import Dataset as Dataset
    from ascertain.datasets import from_file as from_file
    from ascertain.datasets import from_frame as from_frame
    from ascertain.datasets import load as load
    from ascertain.estimator import AcquisitionClassifier as AcquisitionClassifier
    from ascertain.evaluation import evaluate as evaluate
    from ascertain.evaluation import evaluate_incomplete as evaluate_incomplete
    from ascertain.evaluation import evaluate_soft as evaluate_soft
    from ascertain.evaluation import route_structure as route_structure
    from ascertain.methods import register as register
    from ascertain.missingness import MAR as MAR
    from ascertain.missingness import MCAR as MCAR
    from ascertain.missingness import LogisticMNAR as LogisticMNAR
    from ascertain.missingness import SelfMNAR as SelfMNAR
    from ascertain.missingness import diagnose as diagnose
    from ascertain.missingness import mask_tables as mask_tables
    from ascertain.models import SavedModel as SavedModel
    from ascertain.models import hash_table as hash_table
    from ascertain.models import load_model as load_model
    from ascertain.models import save_model as save_model
    from ascertain.policy import Policy as Policy
    from ascertain.predictors import SklearnPredictor as SklearnPredictor
    from ascertain.predictors import fit_predictor as fit_predictor
    from ascertain.recipe import Recipe as Recipe
    from ascertain.recipe import train_policy as train_policy
    from ascertain.restoration import PVAERestorer as PVAERestorer
    from ascertain.restoration import fit_hotdeck as fit_hotdeck
    from ascertain.restoration import fit_mean as fit_mean
    from ascertain.restoration import fit_pvae as fit_pvae
    from ascertain.restoration import treat as treat
    from ascertain.testing import check_dataset as check_dataset
    from ascertain.testing import check_mechanism as check_mechanism
    from ascertain.testing import check_method as check_method
    from ascertain.testing import check_restorer as check_restorer

# Imported on first use: these need scikit-learn and Optax, for which not every command should wait.
_ON_FIRST_USE = {
    "acquisition": ("acquire",),
    "datasets": ("Dataset", "from_file", "from_frame", "load"),
    "estimator": ("AcquisitionClassifier",),
    "evaluation": ("evaluate", "evaluate_incomplete", "evaluate_soft", "route_structure"),
    "methods": ("register",),
    "missingness": ("MAR", "MCAR", "LogisticMNAR", "SelfMNAR", "diagnose", "mask_tables"),
    "models": ("SavedModel", "hash_table", "load_model", "save_model"),
    "policy": ("Policy",),
    "predictors": ("SklearnPredictor", "fit_predictor"),
    "recipe": ("Recipe", "train_policy"),
    "restoration": ("PVAERestorer", "fit_hotdeck", "fit_mean", "fit_pvae", "treat"),
    "scorers": (),
    "tables": (),
    "testing": ("check_dataset", "check_mechanism", "check_method", "check_restorer"),
}
_HOME = {name: module for module, names in _ON_FIRST_USE.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        return import_module(f"ascertain.{name}")
    if name in _HOME:
        return getattr(import_module(f"ascertain.{_HOME[name]}"), name)
    raise AttributeError(f"module 'ascertain' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_FIRST_USE, *_HOME})
