"""With what a process of `bursar webhook` begins: the ledger's newest snapshot, where it can be believed."""

from contextlib import AsyncExitStack
from types import SimpleNamespace

import msgspec
import pytest

from bus.memory import MemoryTransport
from deploy.runtime.admission import beginning
from projections.engine.heads import Signer
from tests.reactors.engine.restoring import archived_in
from tests.recording import recorded

HISTORY = recorded()[:200]


@pytest.fixture
def settings(tmp_path):
    archived_in(tmp_path / "ledger.db", HISTORY)
    Signer(tmp_path / "key")
    return SimpleNamespace(
        data=tmp_path,
        ledger_url=f"sqlite:///{tmp_path / 'ledger.db'}",
        signing_key=tmp_path / "key",
    )


@pytest.fixture
def transport():
    made = MemoryTransport()
    made.events = list(HISTORY)
    return made


async def found(settings, transport):
    async with AsyncExitStack() as stack:
        told = await beginning(settings, transport, stack)
        return told if isinstance(told, str) else told[1].public_key


async def test_a_ledger_of_this_history_beside_its_key_is_begun_with(settings, transport):
    assert Signer(settings.signing_key).public_key == await found(settings, transport)


async def test_without_the_key_that_seals_them_no_snapshot_is_believed(settings, transport):
    settings.signing_key.unlink()

    assert "the key that seals snapshots is not here" == await found(settings, transport)
    assert not settings.signing_key.exists()


async def test_without_a_ledger_the_whole_history_is_read(settings, transport):
    (settings.data / "ledger.db").unlink()

    assert "There is no ledger here yet" in await found(settings, transport)


async def test_a_ledger_that_does_not_answer_is_no_reason_to_end(settings, transport):
    (settings.data / "ledger.db").write_bytes(b"no database at all" * 100)

    assert "the ledger does not answer (DatabaseError)" == await found(settings, transport)


async def test_a_ledger_of_another_history_is_not_begun_with(settings, transport):
    transport.events[-1] = msgspec.structs.replace(HISTORY[-1], body=b'{"a":1}')
    other = await found(settings, transport)
    del transport.events[-1]
    ahead = await found(settings, transport)

    assert "another event at the ledger's checkpoint" in other
    assert "the stream ends before the ledger" in ahead
