"""Missingness: mechanisms that make holes, and a diagnosis of the holes that a table has."""

from ascertain.missingness._diagnosis import Diagnosis as Diagnosis
from ascertain.missingness._diagnosis import diagnose as diagnose
from ascertain.missingness._diagnosis import little_test as little_test
from ascertain.missingness._mechanisms import MAR as MAR
from ascertain.missingness._mechanisms import MCAR as MCAR
from ascertain.missingness._mechanisms import LogisticMNAR as LogisticMNAR
from ascertain.missingness._mechanisms import Mechanism as Mechanism
from ascertain.missingness._mechanisms import SelfMNAR as SelfMNAR
from ascertain.missingness._mechanisms import mask_tables as mask_tables
from ascertain.missingness._registry import MechanismPart as MechanismPart
from ascertain.missingness._registry import get as get
from ascertain.missingness._registry import names as names
from ascertain.missingness._registry import register as register
