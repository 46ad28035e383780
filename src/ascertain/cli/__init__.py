"""The command `ascertain`: parses, calls, prints.

What takes long to import (Matplotlib, scikit-learn) is imported by the commands that need it.
"""

from ascertain.cli import consult as consult
from ascertain.cli import data as data
from ascertain.cli import demo as demo
from ascertain.cli import diagnose as diagnose
from ascertain.cli import exact as exact
from ascertain.cli import fit as fit
from ascertain.cli import methods as methods
from ascertain.cli import results as results
from ascertain.cli import serve as serve
from ascertain.cli import study as study
from ascertain.cli.app import main as main
