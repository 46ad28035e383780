"""Active feature acquisition: which costly feature to measure next, learned from incomplete training data."""

from ascertain import exact as exact
from ascertain.compilation import enable_cache as enable_cache
from ascertain.errors import AscertainError as AscertainError
from ascertain.errors import InputError as InputError
from ascertain.errors import StoreError as StoreError
from ascertain.errors import TooLargeError as TooLargeError
from ascertain.problem import Problem as Problem
from ascertain.problem import Table as Table

__version__ = "0.1.0"
