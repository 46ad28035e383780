"""A scikit-learn classifier that also says what to measure next."""

from ascertain.estimator._classifier import AcquisitionClassifier as AcquisitionClassifier
