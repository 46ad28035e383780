"""Checks for methods of your own: what every method promises, and whether yours keeps it."""

from ascertain.testing.checks import check_method as check_method
from ascertain.testing.checks import method_checks as method_checks
