"""A ledger goes from an older program to a newer one and back, and lacks nothing: what each did not know is filled afterwards."""

import asyncio

import msgspec
import pytest
import sqlalchemy as sa

from bus.errors import LedgerError, LedgerNewerError, UnknownEventTypeError, UnsupportedVersionError
from bus.memory import MemoryTransport
from projections.catalogue import MODEL
from projections.engine import folder
from projections.engine.adoption import adopted
from projections.engine.checkpoint import lacking
from projections.engine.dump import digest
from projections.engine.folder import Folder
from projections.engine.replay import compare, rebuild
from projections.engine.runner import WATCHED, Runner
from projections.engine.tables import parked
from projections.pod_runs.derivation import derivation
from tests import factories as f
from tests.projections.engine.archives import ledger, lives

pytestmark = pytest.mark.simulated

LIVES = lives(40)
THIRD = len(LIVES) // 3
#: The version of the rules of pods.
RUNS = derivation.version
#: An older program knows nothing of what people hold by hour, and of what that needs.
OLDER = MODEL.only({part.name for part in MODEL.parts} - {"usage", "waits"})


def play(store, events, model=MODEL):
    """The history ``events`` into the ledger, by a program of this model that goes on where the ledger is."""

    async def run():
        transport = MemoryTransport()
        await transport.publish(events)
        await Runner(store, Folder(model, store), transport, batch=50).run(live=False)

    asyncio.run(run())


@pytest.fixture
def right(tmp_path):
    made = ledger(f"sqlite:///{tmp_path / 'right.db'}")
    play(made, LIVES)
    yield digest(MODEL, made)
    made.close()


def reasons(store):
    return [reason for (reason,) in store.select(sa.select(parked.c.reason))]


def test_parts_that_an_older_program_did_not_know_are_filled_after_the_next_upgrade(store, right):
    play(store, LIVES[:THIRD])
    play(store, LIVES[: 2 * THIRD], OLDER)
    rolled_back = digest(OLDER, store), store.checkpoint("").version
    play(store, LIVES)

    assert rolled_back[1] == OLDER.version
    assert digest(MODEL, store) == right
    assert store.checkpoint("").version == MODEL.version


@pytest.mark.parametrize("error", [UnknownEventTypeError, UnsupportedVersionError])
def test_what_an_older_program_could_not_read_is_folded_after_the_upgrade(
    store, right, error, monkeypatch
):
    """Of a type that it does not know it parks all and goes on; at a newer version it stops at each batch."""
    read, newer = folder.fact_in, {"pod.vanished", "namespace.observed"}

    def older(event):
        if event.type in newer:
            raise error(type=event.type)
        return read(event)

    with monkeypatch.context() as before:
        before.setattr(folder, "fact_in", older)
        for _ in range(len(LIVES)):
            try:
                play(store, LIVES)
                break
            except LedgerNewerError as stopped:
                assert error is UnsupportedVersionError, stopped
    left_out = len(reasons(store)), digest(MODEL, store) == right
    play(store, LIVES)

    assert left_out == (sum(event.type in newer for event in LIVES), False)
    assert reasons(store) == []
    assert digest(MODEL, store) == right
    with rebuild(MODEL, store) as rebuilt:
        assert compare(store, rebuilt).equal


def test_what_a_newer_program_wrote_of_unknown_types_stops_nobody_and_poison_does(store):
    pods = [f.pod_observed(f"u{n}") for n in range(WATCHED)]
    newer = [
        msgspec.structs.replace(one, type="pod.dreamt", id=f"new-{one.id}") for one in pods[::2]
    ]
    play(store, f.numbered([*pods, *newer]))
    bad = [msgspec.structs.replace(one, body=b"[]", id=f"bad-{one.id}") for one in pods]
    with pytest.raises(LedgerError, match="more than 1 %"):
        play(store, f.numbered([*pods, *newer, *bad]))


def test_what_nobody_can_read_yet_stays_parked(store):
    unknown = msgspec.structs.replace(f.pod_observed("u"), type="pod.dreamt", id="new")
    history = f.numbered([f.pod_observed("a"), unknown, f.pod_observed("b")])
    play(store, history[:2])
    play(store, history)

    assert reasons(store) == [str(UnknownEventTypeError(type="pod.dreamt"))]


def ends(store):
    """The last event in the rows of each part that is missing."""
    return lacking(store.checkpoint("").version)


def begun(store):
    """What a newer program makes of the checkpoint before it fills anything."""
    adopted(store, MODEL)
    return ends(store)


def test_a_part_by_other_rules_ends_at_the_event_of_the_upgrade_whatever_comes_after(store):
    """Its sums end with it, and parts beside them do not. A second start changes nothing."""
    play(store, LIVES[:THIRD])
    rename(store, f"pod_runs={RUNS}", f"pod_runs={RUNS - 1}")
    found = begun(store)
    fold_current(store, LIVES[THIRD : 2 * THIRD])

    assert found == dict.fromkeys(("pod_runs", "usage", "budget_spends", "report_days"), THIRD)
    assert begun(store) == found
    assert store.checkpoint("").sequence == 2 * THIRD
    play(store, LIVES)
    assert ends(store) == {}


def test_a_new_part_ends_at_an_unknown_event(store):
    play(store, LIVES[:THIRD], OLDER)

    assert begun(store) == {"usage": 0, "waits": 0}


def test_a_part_ends_before_the_first_event_that_it_can_read_by_now(store, monkeypatch):
    read = folder.fact_in

    def older(event):
        if event.type == "namespace.observed":
            raise UnknownEventTypeError(type=event.type)
        return read(event)

    with monkeypatch.context() as before:
        before.setattr(folder, "fact_in", older)
        play(store, LIVES)
    first = next(one.sequence for one in LIVES if one.type == "namespace.observed")

    found = begun(store)

    assert found["namespaces"] == found["pod_runs"] == first - 1
    assert "nodes" not in found


def rename(store, before, after):
    with store.engine.begin() as connection:
        version = store.checkpoint("").version.replace(before, after)
        connection.execute(sa.text("UPDATE checkpoints SET version = :v"), {"v": version})


def fold_current(store, events):
    """Fold events into the parts that are current, as a runner does that was ended before its fill."""
    checkpoint = store.checkpoint("")
    current = Folder(MODEL.current(checkpoint.version), store)
    current.open()
    store.commit(events, current.fold(events), checkpoint)
