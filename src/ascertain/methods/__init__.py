"""The acquisition methods: the paper's six, baselines, and a registry for your own."""

from ascertain.methods.fitting import fit as fit
from ascertain.methods.registry import Method as Method
from ascertain.methods.registry import get as get
from ascertain.methods.registry import names as names
from ascertain.methods.registry import register as register
from ascertain.registry import NoSettings as NoSettings
