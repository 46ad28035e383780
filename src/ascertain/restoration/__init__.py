"""Restoration: filling the holes of training data with draws, so that every action can be learned from."""

from ascertain.restoration._ensemble import Ensemble as Ensemble
from ascertain.restoration._ensemble import fit_ensemble as fit_ensemble
from ascertain.restoration._hotdeck import HotDeck as HotDeck
from ascertain.restoration._hotdeck import fit_hotdeck as fit_hotdeck
from ascertain.restoration._impute import MeanFill as MeanFill
from ascertain.restoration._impute import SklearnImputer as SklearnImputer
from ascertain.restoration._impute import fit_mean as fit_mean
from ascertain.restoration._impute import fit_sklearn as fit_sklearn
from ascertain.restoration._mixture import Mixture as Mixture
from ascertain.restoration._mixture import fit_mixture as fit_mixture
from ascertain.restoration._pvae import PVAE as PVAE
from ascertain.restoration._pvae import PVAERestorer as PVAERestorer
from ascertain.restoration._pvae import fit_pvae as fit_pvae
from ascertain.restoration._registry import RestorerPart as RestorerPart
from ascertain.restoration._registry import get as get
from ascertain.restoration._registry import names as names
from ascertain.restoration._registry import register as register
from ascertain.restoration._restorer import Restorer as Restorer
from ascertain.restoration._restorer import draws as draws
from ascertain.restoration._restorer import label_free as label_free
from ascertain.restoration._restorer import restore as restore
from ascertain.restoration._treatments import TREATMENTS as TREATMENTS
from ascertain.restoration._treatments import Treatment as Treatment
from ascertain.restoration._treatments import held_out_error as held_out_error
from ascertain.restoration._treatments import treat as treat
