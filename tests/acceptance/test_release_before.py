"""What this release writes, the one before can read: the rules of docs/operating.md, "Upgrades and roll-backs"."""

import json
import os
import subprocess
import sys

import pytest

from bus.events import VOCABULARY
from migrations import floor_of, number_of
from migrations.schema import head
from tests.acceptance.releases import checkout

_TOLD = """
import json
import migrations
from bus.events import VOCABULARY
from migrations.schema import head
known = {name: [one.version, *getattr(one, "downcasts", ())] for name, one in VOCABULARY.items()}
print(json.dumps([known, head(), hasattr(migrations, "floor_of")]))
"""


@pytest.fixture
def before(tmp_path):
    """Of the release before: the versions of each type that it reads, its schema, and whether it knows newer ones."""
    folder = checkout(tmp_path / "before")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)}
    told = subprocess.run([sys.executable, "-c", _TOLD], env=environment, cwd=folder, capture_output=True, check=True)  # fmt: skip
    return json.loads(told.stdout)


def test_no_version_of_a_type_is_written_that_the_release_before_cannot_read(before):
    known, _, _ = before
    unreadable = {
        name: fact.version
        for name, fact in VOCABULARY.items()
        if name in known and fact.version > known[name][0] and fact.version not in known[name]
    }

    assert unreadable == {}, "read it a release earlier (`downcasts`), or give the field a default"


def test_the_release_before_goes_on_with_this_schema(before):
    _, schema, knows_newer = before
    if not knows_newer and schema != head():
        pytest.skip("the release before refuses every newer schema")

    assert floor_of(head()) <= number_of(schema)
