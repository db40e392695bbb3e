"""Questions to the ledger beyond its views. They decide and write nothing."""
