"""What a person asks of the ledger beyond its views: nothing is decided or written here."""
