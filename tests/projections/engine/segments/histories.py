"""A ledger with sealed and trimmed segments, and what can be done to it."""

import shutil

import msgspec

from bus.events.clock import ClockTicked
from projections.catalogue import MODEL
from projections.engine.heads import HeadKeeper, Signer
from projections.engine.segments.sealing import Sealer
from projections.engine.store import Store, engine
from projections.engine.verify import verify
from tests import factories as given
from tests.projections.engine.archives import fill, ledger, lives, sequenced

#: Events of a segment; segments of the history below, of which the first are trimmed.
EVERY, SEGMENTS, TRIMMED = 60, 5, 3


def history():
    """Lives of pods, ticks of a clock that was wrong for a while, lists of pods, and an event that nobody can read."""
    said = [*lives(45, nodes=2, teams=2)]
    ticks = [
        given.said(
            ClockTicked(), key="clock", id=f"tick/{n}", at=n * 60 + (9_000 if n == 20 else 0)
        )
        for n in range(80)
    ]
    listed = [one for n in range(4) for one in given.pods_listed([], 10_000 + n, 500 * n)]
    poison = msgspec.structs.replace(said[20], id="poison", body=b"{")
    whole = sorted([*said, *ticks, *listed], key=lambda event: event.time_us)
    return sequenced([*whole[:30], poison, *whole[30:]])


HISTORY = history()
KEEP_US = 1


def sealer_of(folder, store, signer=None, every=EVERY):
    return Sealer(store, signer or Signer(folder / "key"), folder / "segments", every)


def opened(folder):
    return Store(engine(f"sqlite:///{folder / 'ledger.db'}"))


def seal_all(folder, store):
    sealer = sealer_of(folder, store)
    while sealer.seal() is not None:
        pass
    return sealer


def made(folder, *, trimmed=TRIMMED):
    """A ledger of the history in ``folder``, sealed as far as it goes, with a head at its end and one inside each segment."""
    store = ledger(f"sqlite:///{folder / 'ledger.db'}")
    keeper = HeadKeeper(store, Signer(folder / "key"))
    for start in range(0, len(HISTORY), 50):
        keeper.keep(fill(store, HISTORY[start : start + 50]))
    sealer = seal_all(folder, store)
    for _ in range(trimmed):
        assert sealer.trim(KEEP_US) is not None
    store.close()


def copied(folder, target):
    shutil.copytree(folder, target)
    return target


def findings(folder, *keys):
    """What a verification with the key noted elsewhere finds."""
    store = opened(folder)
    try:
        key = Signer(folder / "key").public_key
        return verify(MODEL, store, keys=keys or [key]).findings
    finally:
        store.close()
