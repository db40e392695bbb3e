"""What a pod holds by claims and of shared cards, where it is counted: segments, sums, reports, views."""

from collections import Counter

import pytest
import sqlalchemy as sa

from bus.events.devices import Device
from bus.memory import MemoryTransport
from projections.accounts import accounts, of_model
from projections.catalogue import MODEL
from projections.devices.entries import CardEntry, of_segment
from projections.engine.dump import digest
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.pod_runs import derivation
from projections.reports import Question, report, sums
from tests import factories as given
from tests.projections.devices.claimed import (
    DRIVER,
    card,
    claim_observed,
    claimed,
    claims_listed,
    slice_observed,
)
from tests.projections.engine.archives import fill, ledger, sequenced
from tests.projections.ledger import folded, memory_store
from tests.simulation.loop import simulate

TWO = claimed()
OPEN = [event for event in TWO if event.type != "pod.vanished"]
AS_OF = given.START_S + 900


def play(events, batch=1000, store=None):
    store = store or memory_store()

    async def run():
        transport = MemoryTransport()
        await transport.publish(events)
        await Runner(store, Folder(MODEL, store), transport, batch=batch).run(live=False)

    simulate(run())
    return store


def entries(store):
    (account,) = accounts(store.select, as_of_s=AS_OF)
    return [of_segment(h.model, h.gpu_milli, h.devices, h.device_memory) for h in account.holdings]


def test_a_pod_holds_cards_of_two_models():
    assert entries(play(TWO)) == [(CardEntry("A100", 1000, 81920), CardEntry("H100", 1000, 81920))]


def test_what_a_claim_gives_of_a_request_is_not_counted_before_its_bind_was_observed_either():
    """Who watches was away, or late: that a claim gives the card was first observed after the pod's start."""
    gpu = {"gpu": 1, "claims": ("g",), "created": 1}
    events = [
        slice_observed(card("gpu-0", "H100")),
        given.pod_observed(version=1, at=2, node=None, **gpu),
        claim_observed("g", "gpu-0", stamp=4, at=4),
        given.pod_observed(version=5, at=30, scheduled=10, claimed=("nvidia.com/gpu",), **gpu),
    ]

    assert entries(play(events)) == [(CardEntry("H100", 1000, 81920),)]


@pytest.mark.parametrize("events", [TWO, OPEN], ids=["ended", "open"])
def test_cards_of_two_models_count_in_each_and_all_else_in_the_first(events, tmp_path):
    store = play(events, store=ledger(f"sqlite:///{tmp_path}/ledger.db"))
    held_s = 60 if events is TWO else 900
    want = {"A100": (held_s, held_s * 1000), "H100": (0, held_s * 1000)}
    with store.engine.connect() as connection:
        question = Question(by=("model",), as_of_s=AS_OF)
        for rows in (report(connection, question), sums(connection, question)):
            found = {row.key[0]: (row.sums.held_s, row.sums.gpu_milli_s) for row in rows}
            assert found == want
        only = Question(where={"model": "H100"}, as_of_s=AS_OF)
        assert report(connection, only)[0].sums.gpu_milli_s == held_s * 1000
        assert report(connection, Question(as_of_s=AS_OF))[0].sums.gpu_milli_s == held_s * 2000
        query = "SELECT model, SUM(held_s), SUM(gpu_milli_s), SUM(pods) FROM v1_usage_by_day GROUP BY model"
        assert {row[0]: tuple(row[1:]) for row in connection.execute(sa.text(query))} == {
            model: (*amounts, 1) for model, amounts in want.items()
        }
    store.close()


def test_of_a_segment_with_two_models_each_has_its_cards_and_the_first_all_else():
    (account,) = accounts(play(TWO).select, as_of_s=AS_OF)
    (segment,) = account.holdings

    parts = [of_model(segment, model) for model in ("A100", "H100", "another")]

    assert [(one.model, one.gpu_milli, one.cpu_milli) for one in parts] == [
        ("A100", 1000, 1000),
        ("H100", 1000, 0),
        ("A100", 2000, 1000),
    ]


def test_the_rows_of_claims_do_not_depend_on_batches():
    assert len({digest(MODEL, play(TWO, batch)) for batch in (1, 2, 1000)}) == 1


def test_the_rows_of_claims_do_not_depend_on_restarts():
    """A device read back from the ledger could not be decoded: the second start with slices ended at the first claim."""
    found = {digest(MODEL, folded(sequenced(TWO), batch=1, restart_every=n)) for n in (0, 1)}

    assert len(found) == 1


def test_a_claim_that_a_complete_list_lacks_ends_there():
    store = play([*OPEN, *claims_listed([], 1000)])

    found = accounts(store.select, as_of_s=given.START_S + 2000)[0].holdings
    assert [h.gpu_milli for h in found] == [2000, 0]


def test_a_claim_that_is_seen_again_unallocated_gives_back():
    store = play([*OPEN, claim_observed("g", version=2, at=400)])

    (account,) = accounts(store.select, as_of_s=AS_OF)
    assert [(h.end_s - given.START_S, h.gpu_milli) for h in account.holdings] == [
        (400, 2000),
        (900, 0),
    ]
    assert account.flags == ("deallocated_early",)


def test_the_views_show_devices_and_claims(tmp_path):
    store = play(OPEN, store=ledger(f"sqlite:///{tmp_path}/ledger.db"))

    asked = [
        store.select(sa.text(query))
        for query in (
            "SELECT driver, pool, device, node, model FROM v1_devices ORDER BY device",
            "SELECT uid, namespace, name, pod_uid, created_s, allocated, vanished FROM v1_claims",
        )
    ]
    assert [[tuple(row) for row in rows] for rows in asked] == [
        [(DRIVER, "n", "gpu-0", "n", "H100"), (DRIVER, "n", "gpu-1", "n", "A100")],
        [("g", "ns", "g", None, given.START_S, 1, 0)],
    ]
    store.close()


def test_a_batch_asks_the_ledger_once_for_the_claims_around_it(tmp_path):
    """Ten statements for each pod with a claim were seven eighths of the time."""
    counts = []
    for pods in (5, 50):
        store = ledger(f"sqlite:///{tmp_path}/{pods}.db")
        names = [f"c{n}" for n in range(pods)]
        fill(store, sequenced([claim_observed(name, "gpu-0", stamp=1, at=2) for name in names]))
        asked = []
        sa.event.listen(
            store.engine, "before_cursor_execute", lambda *given, to=asked: to.append(given[2])
        )
        seen = [given.pod_observed(f"p{name}", claims=(name,), at=3) for name in names]
        fill(store, sequenced(seen, pods + 1))
        counts.append(sum("resource_claims" in one or "claim_devices" in one for one in asked))
        store.close()

    assert counts[0] == counts[1] < 20


def test_claims_on_a_shared_device_one_after_the_other_derive_only_who_holds_with_them(monkeypatch):
    """Each event of one derived every pod that ever held the device."""
    derived = []
    one = derivation.derive
    monkeypatch.setattr(
        derivation, "derive", lambda pod, *a, **more: derived.append(pod.uid) or one(pod, *a, **more)
    )  # fmt: skip
    events = [slice_observed(Device("s", capacity={"memory": "80Gi"}, is_shared=True))]
    for n in range(20):
        claim, pod, at = f"c{n}", f"p{n}", 100 * n
        events += [
            claim_observed(claim, "s", version=2, stamp=at, at=at),
            given.pod_observed(pod, claims=(claim,), at=at + 1, created=at),
            given.pod_vanished(pod, claims=(claim,), at=at + 50, created=at),
            claim_observed(claim, version=3, at=at + 51),
        ]
    play(events, batch=1)

    assert Counter(derived).most_common(1)[0][1] <= 4


def test_pods_that_name_one_claim_one_after_the_other_are_derived_once_each(monkeypatch):
    """Each start and end derived anew all that ever named it: those of a CronJob outgrew the rate of their own facts."""
    derived = []
    one = derivation.derive
    monkeypatch.setattr(
        derivation,
        "derive",
        lambda pod, *args, **more: derived.append(pod.uid) or one(pod, *args, **more),
    )
    events = [slice_observed(card("gpu-0", "H100")), claim_observed("g", "gpu-0", stamp=1, at=2)]
    for n in range(30):
        name, at = f"run-{n}", 10 * n
        events += [
            given.pod_observed(name, claims=("g",), at=at, created=at),
            given.pod_vanished(name, claims=("g",), at=at + 9, created=at),
        ]
    store = play(events, batch=1)

    assert len(accounts(store.select, as_of_s=AS_OF)) == 30
    assert Counter(derived).most_common(1)[0][1] <= 4
