"""The one pipeline from data to a trained and scored policy: stages, keys, presets.

Studies, `ascertain train` and `AcquisitionClassifier` all train through it.
"""

from ascertain.recipe._presets import method_settings as method_settings
from ascertain.recipe._presets import predictor_settings as predictor_settings
from ascertain.recipe._presets import restorer_settings as restorer_settings
from ascertain.recipe._training import Recipe as Recipe
from ascertain.recipe._training import Trained as Trained
from ascertain.recipe._training import train_policy as train_policy
