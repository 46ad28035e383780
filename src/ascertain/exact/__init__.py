"""The finite world: small problems solved exactly, with and without holes in the data (section 5.1)."""

from ascertain.exact.bounds import filtering_lower_bound as filtering_lower_bound
from ascertain.exact.bounds import sample_size as sample_size
from ascertain.exact.finite import Atoms as Atoms
from ascertain.exact.finite import FiniteProblem as FiniteProblem
from ascertain.exact.observations import Observations as Observations
from ascertain.exact.plan import Plan as Plan
from ascertain.exact.planning import APPROACHES as APPROACHES
from ascertain.exact.planning import Approach as Approach
from ascertain.exact.planning import fit_plan as fit_plan
from ascertain.exact.planning import restricted_values as restricted_values
from ascertain.exact.shortcut import shortcut as shortcut
