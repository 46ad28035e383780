"""Small problems solved exactly, from complete and incomplete training data (section 5.1 of the paper)."""

from ascertain.exact.bounds import filtering_lower_bound as filtering_lower_bound
from ascertain.exact.bounds import sample_size as sample_size
from ascertain.exact.distribution import TrueDistribution as TrueDistribution
from ascertain.exact.finite import Atoms as Atoms
from ascertain.exact.finite import FiniteProblem as FiniteProblem
from ascertain.exact.observations import Observations as Observations
from ascertain.exact.plan import Plan as Plan
from ascertain.exact.planning import APPROACHES as APPROACHES
from ascertain.exact.planning import Approach as Approach
from ascertain.exact.planning import fit_plan as fit_plan
from ascertain.exact.planning import restricted_values as restricted_values
from ascertain.exact.policies import optimal_policy as optimal_policy
from ascertain.exact.policies import plan_of as plan_of
from ascertain.exact.policies import plan_policy as plan_policy
from ascertain.exact.policies import problem_of as problem_of
from ascertain.exact.policies import table_of as table_of
from ascertain.exact.shortcut import shortcut as shortcut
from ascertain.exact.study import Sweep as Sweep
from ascertain.exact.study import run_study as run_study
