"""The schema of the ledger, as steps. :mod:`migrations.schema` takes them; nobody else imports this room's steps."""
