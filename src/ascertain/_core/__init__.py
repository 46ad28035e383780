"""Shared foundations: input checks, files, compilation, networks and training."""
