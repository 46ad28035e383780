"""What every room uses and none is about: checks, files, compilation, networks, training."""
