"""The acquisition methods: the planner, the paper's six, others of the field, baselines, and your own."""

from ascertain.methods._fitting import fit as fit
from ascertain.methods._registry import Method as Method
from ascertain.methods._registry import get as get
from ascertain.methods._registry import names as names
from ascertain.methods._registry import register as register
from ascertain.registry import NoSettings as NoSettings
