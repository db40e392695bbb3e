"""Notes below a table: the ledger's last event, and the data missing from it."""
