"""A web page and a JSON API over consultations: `ascertain serve`."""

from ascertain.serve.about import About as About
from ascertain.serve.app import create_app as create_app
from ascertain.serve.limits import Limits as Limits
