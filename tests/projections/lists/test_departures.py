"""What lists say of an absent object is read from when it left them: as all lists one by one say it, however many there were."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.catalogue import MODEL
from projections.engine.changes import Changes
from projections.engine.folder import Folder
from projections.engine.reading import fact_in
from projections.lists import parts as lists
from projections.lists.recent import RecentLists
from projections.lists.rows import pod_departures
from projections.timelines import precedes
from tests import factories as said
from tests.projections.devices import claimed
from tests.projections.ledger import memory_store, rows

UIDS = ("a", "b", "m", "p", "z")
HOUR = 3_600


class Known(msgspec.Struct):
    """What is known of an object: its newest observation."""

    uid: str
    version: str
    time_us: int
    cluster: str = said.CLUSTER

    @property
    def history(self):
        return ((self.version, self.time_us, None),)


_moments = st.sampled_from((1, 2, 3, 5, 8)) | st.integers(1, 9).map(lambda n: n * HOUR)
_versions = st.sampled_from(("", "5", "10", "20", "x")) | st.integers(1, 30).map(str)


@st.composite
def _lists(draw):
    """Parts of lists in the order of their arrival: late ones, and others of one moment, which are divided alike."""
    found = []
    for at in draw(st.lists(_moments, min_size=1, max_size=12)):
        bounds = ["", *(("m",) if at % 2 else ()), ""]
        version = draw(_versions)
        cluster = draw(st.sampled_from((said.CLUSTER, said.CLUSTER, "other")))
        for first, until in pairwise(bounds):
            if draw(st.integers(0, 5)):
                uids = draw(st.sets(st.sampled_from(UIDS)))
                uids = {one for one in uids if first <= one and (not until or one < until)}
                (event,) = said.pods_listed(sorted(uids), version, at, cluster=cluster)
                body = msgspec.structs.replace(fact_in(event), first=first, until=until)
                found.append(msgspec.structs.replace(event, body=msgspec.json.encode(body)))
    return said.numbered(found)


def taken(events, kept, batch):
    """The lists of a ledger that was told of them, with so many parts in memory; and all parts that count."""
    store = memory_store()
    recent = RecentLists(store.select, kept)
    recent.open()
    checkpoint, parts = store.checkpoint(MODEL.version), {}
    for start in range(0, len(events), batch):
        some = events[start : start + batch]
        for event in some:
            part = lists.part_of(event, fact_in(event))
            recent.add(part)
            key = (part.cluster, part.time_us, part.first)
            if key not in parts or lists.rank(parts[key]) < lists.rank(part):
                parts[key] = part
        found = recent.changes()
        changes = Changes(deletes=found.deletes, upserts=found.upserts)
        checkpoint = store.commit(some, changes, checkpoint)
        recent.settle()
    return store, recent, [parts[key] for key in sorted(parts, reverse=True)]


_known = st.builds(
    Known,
    uid=st.sampled_from((*UIDS, "new")),
    version=_versions,
    time_us=st.integers(0, 9 * HOUR).map(said.us) | _moments.map(said.us),
)


@given(_lists(), st.lists(_known, min_size=3, max_size=3), st.sampled_from((1, 2, 64)), st.sampled_from((1, 3)))  # fmt: skip
def test_an_absence_and_a_proof_are_those_of_all_lists(events, known, kept, batch):
    _, recent, parts = taken(events, kept, batch)
    for one in known:
        mine = [part for part in parts if part.cluster == one.cluster and part.covers(one.uid)]

        assert recent.absence(one) == lists.absence(one, mine, lambda _: None)
        proofs = [
            part.time_us
            for part in mine
            if part.time_us <= one.time_us
            and one.uid in part.uids
            and precedes(part.resource_version, part.time_us, one.version, one.time_us)
        ]
        since_us = said.us(2)
        wanted = max([since_us, *proofs])
        assert recent.proof(one, one.version, one.time_us, since_us) == wanted


@given(_lists(), st.randoms(use_true_random=False), st.sampled_from((1, 64)))
def test_departures_are_those_of_the_set_of_lists_in_any_order(events, random, kept):
    mixed = [*events, *random.sample(events, len(events) // 2)]
    random.shuffle(mixed)
    want = rows(taken(events, 64, 1000)[0], pod_departures, without=("sequence",))

    assert want == rows(taken(said.numbered(mixed), kept, 2)[0], pod_departures, without=("sequence",))  # fmt: skip


class Counting:
    """A reader that counts the rows that it reads."""

    def __init__(self, store):
        self._store = store
        self.read = 0

    def rows(self, table, keys):
        return self._counted(self._store.rows(table, keys))

    def select(self, query, values=None):
        return self._counted(self._store.select(query, values))

    def _counted(self, found):
        self.read += len(found)
        return found


LISTS = 300


@pytest.mark.parametrize("uid", ["never", "left", "stays"])
@pytest.mark.parametrize("kind", ["pods", "claims", "slices"])
def test_a_late_record_of_an_object_that_lists_lack_reads_none_of_them(kind, uid):
    store = memory_store()
    reader = Counting(store)
    folder = Folder(MODEL, reader)
    folder.open()
    checkpoint = store.checkpoint(MODEL.version)
    late = {
        "pods": lambda: said.pod_observed(uid, 1, 0),
        "claims": lambda: claimed.claim_observed(uid, "card"),
        "slices": lambda: claimed.slice_observed(claimed.card("card", "A100"), name=uid),
    }[kind]()
    own = fact_in(late).uid
    listed = {
        "pods": lambda uids, n: said.pods_listed(uids, 1_000 + n, n * 600),
        "claims": lambda uids, n: claimed.claims_listed(uids, n * 600),
        "slices": lambda uids, n: claimed.claims_listed(uids, n * 600, "ResourceSlice"),
    }[kind]
    for n in range(1, LISTS + 1):
        has = uid == "stays" or (uid == "left" and n < 10)
        events = said.numbered([listed(["other", own] if has else ["other"], n)], n)
        checkpoint = store.commit(events, folder.fold(events), checkpoint)
        folder.settle()
    reader.read = 0
    folder.fold(said.numbered([late], LISTS + 1))

    assert reader.read < 30
