"""From results to figures and tables; nothing here trains anything."""
