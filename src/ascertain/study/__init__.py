"""Studies: grids of policies from one file, computed in chunks, kept in a folder, resumed at will."""

from ascertain.study.engine import run_study as run_study
from ascertain.study.file import Study as Study
from ascertain.study.file import read_study as read_study
from ascertain.study.file import shipped as shipped
