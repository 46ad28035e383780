"""From a study's results to figures, tables and reports; nothing here trains."""
