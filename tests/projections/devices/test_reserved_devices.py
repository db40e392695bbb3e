"""What of a card is held, reserved and unknown, in any world of claims that share cards: together never more than the card."""

import random
from collections import Counter

import pytest
import sqlalchemy as sa

from bus.events.devices import ResourceSliceVanished
from projections.devices.claim_holdings import ClaimHoldings
from projections.devices.shape import card_segments
from projections.inventory.shape import card_supply
from projections.lists import queries
from tests import factories as given
from tests.projections.devices.claimed import (
    DRIVER,
    card,
    claim_observed,
    claims_listed,
    slice_observed,
)
from tests.projections.devices.claimed_worlds import DEVICES, LISTED, SLICE, World
from tests.projections.engine.archives import fill, ledger, sequenced
from tests.projections.ledger import folded

OPEN = 10**6
_SUPPLY = sa.select(card_supply.c.card, card_supply.c.start_s, card_supply.c.end_s).order_by(
    card_supply.c.card, card_supply.c.start_s
)


def rows(events, **more):
    store = folded(sequenced(events), **more)
    return sorted(map(tuple, store.select(sa.select(card_segments))), key=repr)


@pytest.mark.parametrize("seed", range(12))
def test_held_reserved_and_unknown_never_pass_a_card(seed):
    for one in ("gpu-0", "gpu-1", "set"):
        changes = Counter()
        for row in rows(World(seed).events):
            if row[2].endswith(f"/{one}"):
                changes[row[5]] += row[15]
                changes[OPEN + given.START_S if row[6] is None else row[6]] -= row[15]
        taken = 0
        for second in sorted(changes):
            taken += changes[second]
            assert 0 <= taken <= 1000, (one, second - given.START_S)


@pytest.mark.parametrize("seed", range(6))
def test_the_rows_of_cards_depend_neither_on_order_nor_on_batches_nor_on_restarts(seed):
    events = World(seed).events
    mixed = events + events
    random.Random(seed).shuffle(mixed)
    # Who touched a row last depends on the order, all else does not.
    said = [[row[:-1] for row in rows(one)] for one in (events, mixed)]

    assert said[0] == said[1]
    assert len({repr(rows(mixed, batch=n, restart_every=n % 3)) for n in (1, 5, 1000)}) == 1
    assert len({repr(rows(events, batch=n)) for n in (1, 2, 4)}) == 1


@pytest.mark.parametrize("seed", range(8))
def test_the_usage_of_cards_is_what_is_counted_second_by_second(seed, tmp_path):
    world = World(seed)
    store = ledger(f"sqlite:///{tmp_path}/ledger.db")
    fill(store, sequenced(world.events))

    kinds = ("held", "reserved", "unknown", "idle")
    columns = ", ".join(f"SUM({kind}_gpu_milli_s)" for kind in (*kinds, "supply"))
    query = f"SELECT card, {columns} FROM v1_device_usage GROUP BY card"
    found = {}
    for of, *amounts, supply in store.select(sa.text(query)):
        name = of.rpartition("/")[2]
        assert (sum(amounts), supply) == (1000 * LISTED, 1000 * LISTED)
        found |= {(name, kind): n for kind, n in zip(kinds, amounts, strict=True) if n}
    assert found == world.seconds(LISTED)
    store.close()


def test_the_usage_of_cards_is_cut_at_the_end_of_a_day(tmp_path):
    midnight = -given.START_S % 86_400
    store = ledger(f"sqlite:///{tmp_path}/ledger.db")
    claim = claim_observed("g", "gpu-0", stamp=midnight - 10, at=midnight - 10)
    events = [slice_observed(card("gpu-0", "H100"), at=midnight - 15), claim]
    fill(store, sequenced([*events, *given.pods_listed([], "9", midnight + 20)]))

    query = "SELECT day_s, reserved_gpu_milli_s, idle_gpu_milli_s, model, node FROM v1_device_usage ORDER BY day_s"
    day_s = given.START_S + midnight
    assert [tuple(row) for row in store.select(sa.text(query))] == [
        (day_s - 86_400, 10_000, 5_000, "H100", "n"),
        (day_s, 20_000, 0, "H100", "n"),
    ]
    store.close()


def test_cards_of_a_slice_that_is_gone_or_of_an_old_generation_are_no_supply():
    vanished = ResourceSliceVanished(
        uid="slice-s", name="s", resource_version="7", driver=DRIVER, pool="n", generation=2
    )
    gone = given.said(vanished, key="slice-s", id="gone", at=90)
    events = [
        slice_observed(*DEVICES, counters={"set": {"memory": "80Gi"}}, generation=1),
        slice_observed(card("gpu-9", "H200"), version=5, at=50, generation=2),
        slice_observed(card("gpu-7", "H200"), version=6, at=50, name="old", generation=1),
        gone,
    ]
    shown = [
        [tuple(row) for row in folded(sequenced(one)).select(_SUPPLY)]
        for one in (events, [*events[::-1], *events])
    ]

    assert [(card.rpartition("/")[2], start - given.START_S, end and end - given.START_S) for card, start, end in shown[0]] == [
        ("gpu-0", 0, 50), ("gpu-1", 0, 50), ("gpu-7", 90, None), ("gpu-9", 50, 90), ("set", 0, 50), ("uuid", 0, 50),
    ]  # fmt: skip
    assert shown[0] == shown[1]


def test_cards_of_a_slice_that_a_complete_list_lacks_end_there_until_another_has_it():
    events = [slice_observed(card("gpu-0", "H100")), *claims_listed([], 60, "ResourceSlice")]
    back = [*events, *claims_listed(["slice-s"], 80, "ResourceSlice")]

    found = [folded(sequenced(one), batch=1).select(_SUPPLY) for one in (events, back, back[::-1])]
    ends = [[row[2] and row[2] - given.START_S for row in rows] for rows in found]
    assert ends == [[60], [None], [None]]


def test_a_claim_is_reserved_while_no_pod_holds_it_and_for_whom():
    events = [
        given.namespace_observed("ns", team="green"),
        SLICE,
        claim_observed("g", "gpu-0", stamp=0, at=2),
        given.pod_observed("p", claims=("g",), at=10, created=10),
        given.pod_vanished("p", claims=("g",), at=40, created=10),
        claim_observed("g", version=2, at=90),
    ]

    found = [
        (row[3], row[4], row[5] - given.START_S, row[6] - given.START_S, row[14], row[15])
        for row in rows(events)
    ]
    assert found == [
        ("held", "p", 10, 40, "", 1000),
        ("reserved", "", 0, 10, "green", 1000),
        ("reserved", "", 40, 90, "green", 1000),
    ]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_unknown_time_of_a_pod_that_was_never_seen_bound_is_not_reserved(batch, order):
    """It may have held the claim between its last observation and the list without it, and not before."""
    events = [
        SLICE,
        claim_observed("g", "gpu-0", stamp=0, at=0),
        given.pod_observed("p", claims=("g",), node=None, at=10, created=10),
        *given.pods_listed(["p"], "8", 30),
        *given.pods_listed([], "9", 60),
        claim_observed("g", version=2, at=90),
    ]

    found = [
        (row[3], row[4], row[5] - given.START_S, row[6] - given.START_S)
        for row in rows(events[::order], batch=batch)
    ]
    assert found == [("reserved", "", 0, 30), ("reserved", "", 60, 90), ("unknown", "", 30, 60)]


@pytest.mark.parametrize("node", [None, "n"])
def test_a_pod_that_waits_or_was_seen_to_end_unbound_takes_no_reserved_time(node):
    """The claim of a bystander: what it may have held is known."""
    events = [
        SLICE,
        claim_observed("g", "gpu-0", stamp=0, at=0),
        given.pod_observed("ended", claims=("g",), node=None, at=10, created=10),
        given.pod_vanished("ended", claims=("g",), node=None, at=40, created=10),
        given.pod_observed("waits", claims=("g",), node=None, at=50, created=50),
        given.pod_observed("other", node=node, at=10, created=10),
        claim_observed("g", version=2, at=90),
    ]

    found = [(row[3], row[5] - given.START_S, row[6] - given.START_S) for row in rows(events)]
    assert found == [("reserved", 0, 90)]


@pytest.mark.parametrize("ended", [3, 20, 89])
def test_a_pod_of_less_than_a_second_divides_no_reserved_time(ended):
    """It was cut in two, and a second at its edge counted for nobody."""
    events = [
        SLICE,
        claim_observed("g", "gpu-0", stamp=2, at=2),
        given.pod_observed("p", claims=("g",), at=ended, created=1, scheduled=ended),
        given.pod_vanished("p", claims=("g",), at=ended, created=1, scheduled=ended),
        claim_observed("g", version=2, at=90),
    ]

    found = [(row[3], row[5] - given.START_S, row[6] - given.START_S) for row in rows(events)]
    assert found == [("reserved", 2, 90)]


@pytest.mark.parametrize("batch", [1, 2, 4, 1000])
def test_for_whom_a_claim_is_reserved_does_not_depend_on_batches(batch):
    """Of two changes of a namespace in one batch, what the first one changed was not written."""
    events = [
        SLICE,
        claim_observed("g", "part-0", stamp=0, at=2),
        claim_observed("g", version=2, at=90),
        given.pod_observed("z", at=91, created=91),
        given.namespace_observed("ns", 1, 100, team="green"),
        given.namespace_observed("ns", 2, 500, team="red"),
        given.node_observed("n", 1, 100, model="A30"),
        given.node_observed("n", 2, 500, model="B200"),
    ]

    assert [row[13:15] for row in rows(events, batch=batch)] == [("A30", "green")]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("batch", [1, 1000])
def test_who_writes_later_that_a_claim_was_made_for_a_pod_takes_it_from_nobody(order, batch):
    owner = given.owner("z", "Pod")
    events = [
        claim_observed("g", "gpu-0", stamp=0, at=0),
        claim_observed("g", "gpu-0", version=2, stamp=0, at=20, owner=owner, is_generated=True),
        given.pod_observed("a", claims=("g",), at=10, created=9),
        given.pod_vanished("a", claims=("g",), at=70, created=9),
        given.pod_observed("z", at=30, created=30),
    ]

    found = rows([SLICE, *events[::order]], batch=batch)
    assert [row[3:5] for row in found] == [("held", "a"), ("reserved", ""), ("reserved", "")]


def test_a_claim_that_a_complete_list_has_again_is_reserved_on():
    lost = claim_observed("g", "gpu-0", stamp=0, at=0)
    events = [SLICE, lost, *claims_listed([], 60), *claims_listed(["g"], 80)]

    for order in (events, events[::-1]):
        assert [row[6] for row in rows(order, batch=1)] == [None]


def test_lists_that_lack_a_claim_that_was_missed_before_cost_nothing_more(monkeypatch):
    """Each of them read all lists since the claim was lost."""
    read = []
    with_uids = queries.with_uids
    monkeypatch.setattr(queries, "with_uids", lambda *of: read.append(of) or with_uids(*of))
    lost = claim_observed("lost", "part-0", stamp=0, at=0)
    events = [SLICE, lost, *claims_listed(["lost"], 30)]
    for number in range(40):
        events += claims_listed([], 60 + 600 * number)

    assert [row[6] - given.START_S for row in rows(events, batch=1, parts_kept=8)] == [30]
    assert len(read) < 8


def test_a_pod_that_says_a_card_of_another_node_takes_nothing_of_it():
    def pod(name, **fields):
        return given.pod_observed(name, card_texts={"runai-gpu-group": "x", **fields.pop("texts", {})}, at=5, **fields)  # fmt: skip

    half = {"gpu-fraction": "0.5"}
    events = [
        pod("reserving", namespace="kai-resource-reservation"),
        pod("beside", texts=half),
        pod("elsewhere", texts=half, node="another"),
    ]

    assert [row[15] for row in rows(events)] == [500]


def test_beside_a_long_claim_each_short_one_costs_the_same(monkeypatch):
    """Each event of one built every claim that ever had the card."""
    built = []
    occupant = ClaimHoldings.occupant
    monkeypatch.setattr(
        ClaimHoldings,
        "occupant",
        lambda holdings, claim: built.append(claim.uid) or occupant(holdings, claim),
    )
    counts = []
    for short in (10, 20, 40):
        events = [SLICE, claim_observed("long", "part-0", stamp=0, at=0)]
        for n in range(short):
            events += [
                claim_observed(f"c{n}", "part-1", version=2, stamp=10 * n, at=10 * n),
                claim_observed(f"c{n}", version=3, at=10 * n + 5),
            ]
        built.clear()
        rows(events, batch=1)
        counts.append(len(built) / short)

    assert max(counts) < 5
