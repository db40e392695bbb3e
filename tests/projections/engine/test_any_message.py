"""Whatever lies on the bus can be committed, on SQLite and on PostgreSQL, with one outcome: no message stops the ledger.

Covers any bytes as subject tokens, header names, header values and bodies, and well-formed bodies of every type of the
vocabulary with values that a database, an index or a reader of JSON refuses.
"""

import json

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from bus.envelope import MALFORMED, from_line
from bus.errors import EnvelopeError
from bus.jetstream import wire
from projections.catalogue import METADATA, MODEL
from projections.engine.dump import digest
from projections.engine.folder import Folder
from projections.engine.tables import events as archive
from projections.engine.tables import parked
from projections.engine.verify import verify
from tests.projections.engine.archives import ledger
from tests.projections.engine.hostile_facts import (
    bodies,
    hostile_header,
    messages,
    noise,
    said,
)
from tests.projections.ledger import memory_store

#: The ci profile tries thousands of messages.
pytestmark = [pytest.mark.postgres, pytest.mark.timeout(3_000)]


@pytest.fixture(scope="module")
def postgres(postgres_server):
    """A ledger on PostgreSQL for all examples of a property."""
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE any_message TEMPLATE template0")
    url = postgres_server.replace("postgresql:", "postgresql+psycopg:")
    store = ledger(url.replace("/postgres?", "/any_message?"))
    yield store
    store.close()


def committed(store, events):
    """What an empty ledger says after one batch of ``events``: digest, parked events, archive."""
    with store.engine.begin() as connection:
        for table in METADATA.tables.values():
            connection.execute(table.delete())
    folder = Folder(MODEL, store)
    folder.open()
    store.commit(events, folder.fold(events), store.checkpoint(MODEL.version))
    kept = store.select(sa.select(archive).order_by(archive.c.sequence))
    refused = store.select(sa.select(parked).order_by(parked.c.sequence))
    return digest(MODEL, store), refused, [tuple(map(_plain, row)) for row in kept]


def _plain(value):
    return bytes(value) if isinstance(value, memoryview) else value


@given(st.lists(messages, min_size=1, max_size=6))
def test_any_bytes_on_the_bus_are_committed_alike_on_both_databases(postgres, found):
    events = [wire.read(*message, sequence) for sequence, message in enumerate(found, 1)]

    assert committed(memory_store(), events) == committed(postgres, events)
    assert verify(MODEL, postgres).ok


@given(st.lists(bodies, min_size=1, max_size=4))
def test_any_body_of_a_known_type_is_committed_alike_on_both_databases(postgres, found):
    events = [said(*pair, sequence) for sequence, pair in enumerate(found, 1)]

    assert committed(memory_store(), events) == committed(postgres, events)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(b"ce-dataversion", b"2147483648", id="a version that PostgreSQL cannot hold"),
        pytest.param(b"ce-dataversion", b"9223372036854775808", id="a version that SQLite cannot hold"),
        pytest.param(b"ce-dataversion", b"-2147483649", id="a version below all"),
        pytest.param(b"ce-dataversion", b"0", id="a version before the first"),
        pytest.param(b"ce-dataversion", b"9" * 5_000, id="a version of 5,000 digits"),
        pytest.param(b"ce-id", b"a\x00b", id="NUL in the id"),
        pytest.param(b"ce-source", b"\x1b[2J", id="a terminal's command in the source"),
        pytest.param(b"ce-subject", b"a\x00", id="NUL in the key"),
        pytest.param(b"ce-subject", b"\xed\xa0\x80", id="half a surrogate pair"),
        pytest.param(b"ce-subject", b"\xff", id="no UTF-8"),
        pytest.param(b"ce-subject", noise(3_000).encode(), id="a key longer than an index takes"),
        pytest.param(b"ce-time", b"2026-10-01T09:00:00Z\x00", id="NUL in the time"),
    ],
)  # fmt: skip
def test_an_attribute_that_a_database_cannot_hold_makes_the_message_malformed(name, value):
    event = wire.read(b"bursar.c1.pod.observed.k", hostile_header(name, value), b"{}", 7)

    assert (event.type, event.id, event.body) == (MALFORMED, "malformed/7", b"{}")
    assert event.defect.isprintable()
    assert len(committed(memory_store(), [event])[1]) == 1


@pytest.mark.parametrize("token", [b"a\x00", b"\xff", b"c" * 65], ids=["NUL", "no UTF-8", "long"])
def test_a_cluster_that_a_database_cannot_hold_makes_the_message_malformed(token):
    headers = hostile_header(b"ce-id", b"i")
    event = wire.read(b"bursar.%b.pod.observed.k" % token, headers, b"{}", 7)

    assert (event.type, event.cluster) == (MALFORMED, "")


@pytest.mark.parametrize(
    "change",
    [
        {"dataversion": 2**31}, {"dataversion": 2**63}, {"dataversion": 10**30}, {"dataversion": 0}, {"id": "a\0b"},
        {"subject": "\x1b"}, {"source": "\x7f"}, {"cluster": "c\0"}, {"type": "pod.obs\0"},
    ],
    ids=lambda change: next(f"{name} {value!r}" for name, value in change.items()),
)  # fmt: skip
def test_a_line_of_a_file_with_such_an_attribute_is_refused_by_name(change):
    line = {
        "id": "i", "source": "s", "type": "pod.observed", "subject": "k", "time": "2026-10-01T09:00:00Z", "data": {},
    }  # fmt: skip

    with pytest.raises(EnvelopeError, match=r"attribute='(id|key|source|type|cluster|version)'"):
        from_line(json.dumps(line | change).encode())
