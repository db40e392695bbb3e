"""The schema of the ledger, as steps. :mod:`migrations.schema` takes them; nobody else imports this room's steps."""


def number_of(revision: str) -> str:
    """The number of a step: ``0023`` of ``0023_from_0021``. Four digits, so that texts compare as they follow each other."""
    return revision.partition("_")[0]


def floor_of(revision: str) -> str:
    """The oldest step whose programs may go on with this schema: ``0021`` of ``0023_from_0021``, else its own number."""
    return revision.partition("_from_")[2] or number_of(revision)
