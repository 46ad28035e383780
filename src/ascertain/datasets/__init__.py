"""Datasets: synthetic and real ones by name, and anybody's own table."""

from ascertain.datasets._catalog import describe as describe
from ascertain.datasets._catalog import load as load
from ascertain.datasets._dataset import Dataset as Dataset
from ascertain.datasets._dataset import RawRows as RawRows
from ascertain.datasets._dataset import Split as Split
from ascertain.datasets._export import TARGET as TARGET
from ascertain.datasets._export import export as export
from ascertain.datasets._frame import from_file as from_file
from ascertain.datasets._frame import from_frame as from_frame
from ascertain.datasets._registry import DatasetPart as DatasetPart
from ascertain.datasets._registry import get as get
from ascertain.datasets._registry import names as names
from ascertain.datasets._registry import register as register
from ascertain.datasets._synthetic import cube as cube
from ascertain.datasets._synthetic import cube_nm as cube_nm
from ascertain.datasets._synthetic import cube_nuc as cube_nuc
