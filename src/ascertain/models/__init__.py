"""Fitted policies on disk, one file each."""

from ascertain.models.saving import SavedModel as SavedModel
from ascertain.models.saving import hash_table as hash_table
from ascertain.models.saving import load_model as load_model
from ascertain.models.saving import save_model as save_model
