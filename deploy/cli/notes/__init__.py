"""What stands below a table: how far the ledger is, and what is not in it."""
