"""What a start publishes of objects that did not change since the process before it ended."""

import pytest

from bus.kube.watch.poller import Poller
from bus.kube.watch.reflector import Reflector
from bus.memory import MemoryTransport
from bus.sources.catalogue import SOURCES
from deploy.runtime.watch import known
from projections.cluster import ClusterState
from reactors.catalogue import REACTORS
from reactors.engine.replica import Replica
from tests.bus.kube.watch.fakes import Followed, page
from tests.projections.engine.archives import fill, ledger, sequenced
from tests.scenario import settled

pytestmark = pytest.mark.simulated

OBJECT = {"name": "n", "namespace": "ns"}


async def published(source, versions, version="7"):
    """What a process publishes that begins with ``versions`` known, and finds one object."""
    # What several sources find is one object, in several versions of its API.
    metadata = OBJECT | {"uid": source.kind or source.name, "resourceVersion": version}
    # The version of what is polled is its time.
    found = {"metadata": metadata, "spec": {}, "status": {}, "timestamp": f"1970-01-01T00:00:00.00000{version}Z"}  # fmt: skip
    transport, made = MemoryTransport(), Poller if source.polling else Reflector
    begun = Followed([page(version, found)], source=source, transport=transport, made=made, known=versions)  # fmt: skip
    async with begun:
        await settled()
    return transport.events


def after(events, folder):
    """The state and the ledger that a process begins with after ``events``."""
    events = sequenced(events)
    replica = Replica(REACTORS, "default")
    for event in events:
        replica.apply(event)
    store = ledger(f"sqlite:///{folder / 'ledger.db'}")
    fill(store, events, batch=len(events))
    return replica.cluster_state, store


async def test_no_object_that_is_unchanged_is_published_again(tmp_path):
    """Of every kind that is followed; its complete list is, which has no object."""
    first = {source.name: await published(source, {}) for source in SOURCES}
    assert all(events[0].type.endswith(".observed") for events in first.values())
    state, store = after([event for events in first.values() for event in events], tmp_path)

    for source in SOURCES:
        versions = known(state, store, source, "default")
        assert versions == {"measured-n" if source.polling else source.kind or source.name: "7"}
        assert all(e.type.endswith(".listed") for e in await published(source, versions))
        changed = (await published(source, versions, version="8"))[0]
        assert changed.type.endswith(".observed"), source.name
    store.close()


def test_a_kind_that_the_state_does_not_hold_has_no_versions():
    assert {} == ClusterState().versions("Other")
