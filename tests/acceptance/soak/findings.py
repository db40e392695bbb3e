"""What must hold of a ledger after a bad night: it is whole, and says of each pod what etcd's record says."""

import sqlalchemy as sa

from projections.accounts import accounts
from projections.engine.store import Store, engine
from projections.engine.tables import events, parked


def settled(site):
    """Everything that was said is in the ledger, which is that of its archive."""

    def is_written():
        store = Store(engine(site.postgres_url, read_only=True))
        try:
            ((count, distinct, last),) = store.select(
                sa.select(sa.func.count(), sa.func.count(events.c.id.distinct()), sa.func.max(events.c.sequence))
            )  # fmt: skip
            assert store.select(sa.select(parked)) == []
            return count == distinct == last
        finally:
            store.close()

    site.until(is_written, what="the ledger")
    code, said = site.ask("status", "-o", "json")
    assert code == 0, said
    code, said = site.ask("replay", "-o", "json")
    assert code == 0, said


def counted(site, truth):
    """What the ledger says otherwise of a pod than the record; of one whose end nobody saw the interval must hold the truth."""
    store = Store(engine(site.postgres_url, read_only=True))
    try:
        found = {one.uid: one for one in accounts(store.select, as_of_s=2**33)}
    finally:
        store.close()
    wrong, site.unseen, site.rewritten = [], 0, 0
    for uid, (start, end, cpu, memory) in truth.pods.items():
        mine = found.get(uid)
        held = mine and [(h.start_s, h.end_s, h.cpu_milli, h.memory_mib) for h in mine.holdings]
        if held == [(start, end, cpu, memory)] or (start == end and held == []):
            continue
        if held in [[(start, other, cpu, memory)] for other in truth.finishes[uid]]:
            site.rewritten += 1
            continue
        if mine and "vanished" in mine.flags and held:
            ((first, last, *amounts),) = held
            site.unseen += 1
            if first == start and last <= end <= last + mine.unknown_s and amounts == [cpu, memory]:
                continue
        wrong.append((uid, (start, end, cpu, memory), held, mine and mine.flags))
    return wrong
