"""Notes below a table: how far the ledger has read, and the data missing from it."""
