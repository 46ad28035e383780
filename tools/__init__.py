"""What builds the documentation site."""
