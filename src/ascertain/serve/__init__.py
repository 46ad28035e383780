"""A web page and a JSON API over consultations: `ascertain serve`."""

from ascertain.serve._about import About as About
from ascertain.serve._app import create_app as create_app
from ascertain.serve._limits import Limits as Limits
