"""For a person with a table of their own: what its holes mean, before anything is learned from it."""
