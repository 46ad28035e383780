"""Fitted policies on disk, one file each."""

from ascertain.models._saving import SavedModel as SavedModel
from ascertain.models._saving import hash_table as hash_table
from ascertain.models._saving import load_model as load_model
from ascertain.models._saving import save_model as save_model
