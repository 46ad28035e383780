"""Missingness: mechanisms that make holes, and a diagnosis of the holes that a table has."""

from ascertain.missingness.diagnosis import Diagnosis as Diagnosis
from ascertain.missingness.diagnosis import diagnose as diagnose
from ascertain.missingness.diagnosis import little_test as little_test
from ascertain.missingness.mechanisms import MAR as MAR
from ascertain.missingness.mechanisms import MCAR as MCAR
from ascertain.missingness.mechanisms import LogisticMNAR as LogisticMNAR
from ascertain.missingness.mechanisms import Mechanism as Mechanism
from ascertain.missingness.mechanisms import SelfMNAR as SelfMNAR
from ascertain.missingness.mechanisms import mask_tables as mask_tables
from ascertain.missingness.registry import MechanismPart as MechanismPart
from ascertain.missingness.registry import get as get
from ascertain.missingness.registry import names as names
from ascertain.missingness.registry import register as register
