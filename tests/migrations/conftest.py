"""Empty databases of each kind."""

import pytest

from projections.engine.store import engine


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request, tmp_path):
    """An empty database of each kind."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite:///{tmp_path / 'a % sign.db'}"


@pytest.fixture
def made(url):
    found = engine(url)
    yield found
    found.dispose()
