"""The figures of a study and of the exact study."""
