"""What the paper publishes, and how a study compares with it."""
