"""Datasets: synthetic and real ones by name, and anybody's own table."""

from ascertain.datasets.catalog import describe as describe
from ascertain.datasets.catalog import load as load
from ascertain.datasets.dataset import Dataset as Dataset
from ascertain.datasets.dataset import Split as Split
from ascertain.datasets.frame import from_file as from_file
from ascertain.datasets.frame import from_frame as from_frame
from ascertain.datasets.registry import DatasetPart as DatasetPart
from ascertain.datasets.registry import get as get
from ascertain.datasets.registry import names as names
from ascertain.datasets.registry import register as register
from ascertain.datasets.synthetic import cube as cube
from ascertain.datasets.synthetic import cube_nm as cube_nm
from ascertain.datasets.synthetic import cube_nuc as cube_nuc
