"""Studies: grids of policies from one file, computed in chunks, kept in a folder, resumed at will."""

from ascertain.study._engine import run_study as run_study
from ascertain.study._file import Study as Study
from ascertain.study._file import read_study as read_study
from ascertain.study._file import shipped as shipped
