"""From the tables of a study to findings, figures, tables and a report."""

from ascertain.analysis._artefacts import write_artefacts as write_artefacts
from ascertain.analysis._damage import damage_and_gain as damage_and_gain
from ascertain.analysis._results import Results as Results
from ascertain.analysis._results import read_results as read_results
from ascertain.analysis.report import write_report as write_report
