"""Books of one tree of quotas."""

import pytest

from tests.quota_trees import Books


@pytest.fixture
def books():
    """One root quota ``q`` of 10, seen in the cluster."""
    books = Books()
    books.show_quota()
    return books


@pytest.fixture
def family(books):
    """Below ``q``: ``a`` with 4 and ``b`` with 3."""
    books.show_quota("a", 4, parent="q")
    books.show_quota("b", 3, parent="q")
    return books
