"""Restoration: filling the holes of training data with draws, so that every action can be learned from."""

from ascertain.restoration.hotdeck import HotDeck as HotDeck
from ascertain.restoration.hotdeck import fit_hotdeck as fit_hotdeck
from ascertain.restoration.impute import MeanFill as MeanFill
from ascertain.restoration.impute import SklearnImputer as SklearnImputer
from ascertain.restoration.impute import fit_mean as fit_mean
from ascertain.restoration.impute import fit_sklearn as fit_sklearn
from ascertain.restoration.pvae import PVAE as PVAE
from ascertain.restoration.pvae import PVAERestorer as PVAERestorer
from ascertain.restoration.pvae import fit_pvae as fit_pvae
from ascertain.restoration.registry import RestorerPart as RestorerPart
from ascertain.restoration.registry import get as get
from ascertain.restoration.registry import names as names
from ascertain.restoration.registry import register as register
from ascertain.restoration.restorer import Restorer as Restorer
from ascertain.restoration.restorer import label_free as label_free
from ascertain.restoration.restorer import restore as restore
from ascertain.restoration.treatments import TREATMENTS as TREATMENTS
from ascertain.restoration.treatments import Treatment as Treatment
from ascertain.restoration.treatments import held_out_error as held_out_error
from ascertain.restoration.treatments import treat as treat
