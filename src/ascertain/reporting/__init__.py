"""Pages, tables and figures: what reports of studies and of people's tables share."""
