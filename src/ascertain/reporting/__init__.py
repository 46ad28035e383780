"""HTML pages, tables, text and figures, shared by study reports and reports on a user's own table."""
