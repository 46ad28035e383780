"""Checks for parts of your own: what every method, restorer, mechanism and dataset promises."""

from ascertain.testing._checks import check_method as check_method
from ascertain.testing._checks import method_checks as method_checks
from ascertain.testing._datasets import check_dataset as check_dataset
from ascertain.testing._mechanisms import check_mechanism as check_mechanism
from ascertain.testing._planted import PlantedTable as PlantedTable
from ascertain.testing._planted import planted_names as planted_names
from ascertain.testing._planted import planted_table as planted_table
from ascertain.testing._restorers import check_restorer as check_restorer
