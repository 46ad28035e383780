"""The one pipeline from data to a trained and scored policy: stages, keys, presets.

Studies, `ascertain train` and `AcquisitionClassifier` all train through it.
"""

from ascertain.recipe.training import Recipe as Recipe
from ascertain.recipe.training import Trained as Trained
from ascertain.recipe.training import train_policy as train_policy
