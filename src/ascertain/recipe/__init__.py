"""From a dataset to a trained and scored policy."""

from ascertain.recipe.pipeline import Recipe as Recipe
from ascertain.recipe.pipeline import train_policy as train_policy
