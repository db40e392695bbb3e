"""What a batch asks of the ledger does not grow with the claims, pods, slices and nodes that it tells of."""

import pytest

from projections.catalogue import MODEL
from projections.engine.folder import Folder
from tests import factories as given
from tests.projections.devices.claimed import card, claim_observed, claimed, slice_observed
from tests.projections.engine.archives import sequenced
from tests.projections.ledger import memory_store


class Counting:
    """A store that counts what it is asked."""

    def __init__(self, store):
        self._store = store
        self.asked = 0

    def rows(self, *arguments):
        self.asked += 1
        return self._store.rows(*arguments)

    def select(self, *arguments):
        self.asked += 1
        return self._store.select(*arguments)


def slices(count):
    return [slice_observed(card("gpu-0", "H100"), name=f"s{n}", pool=f"n{n}") for n in range(count)]


def claims(count):
    """Made for pods that nobody saw yet."""
    return [
        claim_observed(f"c{n}", f"gpu-{n}", owner=given.owner(f"p{n}", "Pod"), is_generated=True)
        for n in range(count)
    ]


def pods(count):
    """Each names a claim of its own."""
    return [given.pod_observed(f"p{n}", claims=(f"c{n}",), at=5) for n in range(count)]


def asked(events, before=()):
    """How often the ledger is asked for ``events`` in one batch, when it has others."""
    store = memory_store()
    counting = Counting(store)
    folder = Folder(MODEL, counting)
    folder.open()
    every = sequenced([*claimed(), *before, *events])
    first = every[: len(every) - len(events)]
    checkpoint = store.commit(first, folder.fold(first), store.checkpoint(MODEL.version))
    folder.settle()
    counting.asked = 0
    store.commit(every[len(first) :], folder.fold(every[len(first) :]), checkpoint)
    return counting.asked


@pytest.mark.parametrize("made", [slices, claims, pods])
def test_many_in_one_batch_ask_as_often_as_few(made):
    assert asked(made(40)) == asked(made(4))


def test_the_models_of_many_nodes_ask_once_for_their_cards():
    def labelled(version, count):
        return [
            given.node_observed(f"n{n}", version, version, model=f"m{version}")
            for n in range(count)
        ]

    # Who is on each node is asked one by one; the cards are not.
    few, many = (asked(labelled(2, n), labelled(1, n)) for n in (4, 40))
    assert many - few == 36
