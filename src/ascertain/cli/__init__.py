"""The command `ascertain`: parses, calls, prints.

What takes long to import (Matplotlib, scikit-learn) is imported by the commands that need it.
"""

from ascertain.cli import _consult as _consult
from ascertain.cli import _data as _data
from ascertain.cli import _demo as _demo
from ascertain.cli import _diagnose as _diagnose
from ascertain.cli import _evaluate as _evaluate
from ascertain.cli import _exact as _exact
from ascertain.cli import _fit as _fit
from ascertain.cli import _methods as _methods
from ascertain.cli import _recommend as _recommend
from ascertain.cli import _results as _results
from ascertain.cli import _serve as _serve
from ascertain.cli import _study as _study
from ascertain.cli._app import main as main
