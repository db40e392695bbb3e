"""How answers look: tables that fit a terminal, JSON, YAML and CSV, with texts of strangers made inert."""
