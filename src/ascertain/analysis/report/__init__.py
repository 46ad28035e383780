"""A study's results as one page of HTML."""

from ascertain.analysis.report._page import write_report as write_report
