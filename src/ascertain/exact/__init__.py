"""Small problems solved exactly, from complete and incomplete training data (section 5.1 of the paper).

`docs/exact-study.md` goes through it.
"""

from ascertain.exact._bounds import filtering_lower_bound as filtering_lower_bound
from ascertain.exact._bounds import sample_size as sample_size
from ascertain.exact._distribution import TrueDistribution as TrueDistribution
from ascertain.exact._finite import Atoms as Atoms
from ascertain.exact._finite import FiniteProblem as FiniteProblem
from ascertain.exact._observations import Observations as Observations
from ascertain.exact._plan import Plan as Plan
from ascertain.exact._planning import APPROACHES as APPROACHES
from ascertain.exact._planning import Approach as Approach
from ascertain.exact._planning import fit_plan as fit_plan
from ascertain.exact._planning import restricted_values as restricted_values
from ascertain.exact._policies import optimal_policy as optimal_policy
from ascertain.exact._policies import plan_of as plan_of
from ascertain.exact._policies import plan_policy as plan_policy
from ascertain.exact._policies import problem_of as problem_of
from ascertain.exact._policies import table_of as table_of
from ascertain.exact._shortcut import shortcut as shortcut
from ascertain.exact._study import Sweep as Sweep
from ascertain.exact._study import run_study as run_study
