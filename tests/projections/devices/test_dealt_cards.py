"""Cards that Koordinator's rules gave pods: whose card, which part, since when."""

import json
from random import Random

import pytest
import sqlalchemy as sa

from bus.events.devices import ALLOCATED
from projections import reports
from projections.devices.plugins import offered
from projections.devices.shape import card_segments
from projections.pod_runs.shape import pod_runs
from projections.reports import Question
from tests import factories as given
from tests.projections.devices import claimed
from tests.projections.engine.archives import sequenced
from tests.projections.ledger import folded

K = "koordinator.sh/"
GIB = 1024


def saying(*minors, ratio=50, gib=8, **more):
    amounts = {f"{K}gpu-memory": f"{gib}Gi", f"{K}gpu-memory-ratio": ratio}
    entries = [{"minor": minor, "id": f"GPU-{minor}", "resources": amounts} for minor in minors]
    return {ALLOCATED: json.dumps({"gpu": entries, "rdma": [{"minor": 3}]} | more)}


def pod(uid="p", texts=None, version=1, at=5, asked=None, **fields):
    wanted = asked if asked is not None else {f"{K}gpu-core": "50", f"{K}gpu-memory-ratio": "50"}
    return given.pod_observed(
        uid, version, at, resources=given.requesting(wanted), card_texts=texts or {}, **fields
    )


def rows(events, **more):
    """(pod, card, device, from, to, milli-cards, MiB), and the model."""
    columns = card_segments.c
    query = sa.select(
        columns.pod_uid, columns.card, columns.device, columns.start_s - given.START_S,
        columns.end_s - given.START_S, columns.gpu_milli, columns.gpu_memory_mib, columns.model,
    )  # fmt: skip
    found = folded(sequenced(events), **more).select(query)
    return sorted(map(tuple, found), key=repr)


def test_a_part_of_a_card_is_whose_and_since_when():
    node = given.node_observed(model="A100")
    events = [
        node,
        pod(texts=saying(1)),
        given.pod_vanished(at=90, deletion=60, card_texts=saying(1)),
    ]

    assert rows(events[:2]) == [
        ("p", "koordinator/n/gpu-1", "GPU-1", 0, None, 500, 8 * GIB, "A100")
    ]
    assert [row[3:6] for row in rows(events)] == [(0, 60, 500)]


def test_several_cards_share_what_was_requested():
    asked = {f"{K}gpu": "300"}

    assert [(row[1][-5:], row[5]) for row in rows([pod(texts=saying(0, 4, 2), asked=asked)])] == [
        ("gpu-0", 1000), ("gpu-2", 1000), ("gpu-4", 1000),
    ]  # fmt: skip


def test_of_memory_alone_the_node_says_which_part_of_its_card_it_is():
    """Reports charged nothing while the view had what the annotation said."""
    asked = {f"{K}gpu-memory": "160Gi", f"{K}gpu.shared": "4"}
    node = given.node_observed(allocatable={f"{K}gpu": "800", f"{K}gpu-memory": "640Gi"})
    named = saying(0, 1, 2, 3, ratio=100)

    assert [row[5] for row in rows([node, pod(texts=named, asked=asked)])] == [500] * 4
    assert [row[5] for row in rows([pod(texts=named, asked=asked)])] == [0] * 4


def test_cards_that_are_named_later_are_held_from_then():
    events = [pod(), pod(texts=saying(2), version=2, at=30), pod(texts=saying(3), version=3, at=50)]

    assert [(row[1][-5:], *row[3:5]) for row in rows(events)] == [
        ("gpu-2", 30, 50),
        ("gpu-3", 50, None),
    ]


@pytest.mark.parametrize(
    ("texts", "asked"),
    [
        (saying(0), {"cpu": "1"}), (saying(0), {f"{K}gpu": "200"}), (saying(0, 1, 2), {f"{K}gpu": "100"}),
        (saying(), None), (saying(-1), None), (saying(10**7), None), ({ALLOCATED: "[" * 16_000}, None),
        ({ALLOCATED: '{"gpu":'}, None),
        (saying(0, gpu=[{"minor": 1e300}]), None), (saying(0, gpu={"minor": 1}), None), (saying(0, gpu=[[]]), None),
    ],
    ids=range(11),
)  # fmt: skip
def test_what_does_not_fit_the_requests_or_cannot_be_read_names_no_card(texts, asked):
    assert rows([pod(texts=texts, asked=asked)]) == []


def by_claim(asked, *cards, **more):
    """A pod with one card by claim, whose annotation names ``cards``."""
    return [
        claimed.slice_observed(claimed.card("gpu-9", "H100")),
        claimed.claim_observed("g", "gpu-9", stamp=1, at=2),
        pod(texts=saying(*cards), asked=asked, claims=("g",), **more),
    ]


def held(events):
    return sorted((row[1][-5:], row[5]) for row in rows(events))


@pytest.mark.parametrize(
    ("asked", "names", "expected"),
    [
        ({"cpu": "1"}, (), []),
        ({f"{K}gpu": "50"}, (), [("gpu-0", 500)]),
        ({f"{K}gpu": "100"}, (), [("gpu-0", 1000)]),
        ({f"{K}gpu-memory": "8Gi"}, (), [("gpu-0", 0)]),
        ({"nvidia.com/gpu": "1"}, ("nvidia.com/gpu",), []),
        ({"nvidia.com/gpu": "1"}, (), [("gpu-0", 1000)]),
        ({"deviceclass.resource.kubernetes.io/gpu": "1"}, (), []),
        ({f"{K}gpu": "9" * 400}, (), []),
        ({f"{K}gpu": "3e12"}, (), []),
        ({f"{K}gpu": "1e11", "kubernetes.io/gpu": "1e11"}, (), []),
        ({f"{K}gpu": "-100"}, (), []),
    ],
    ids=range(11),
)
def test_what_a_claim_gives_is_not_dealt_out_once_more(asked, names, expected):
    found = held(by_claim(asked, 0, claimed=names))

    assert found == [*expected, ("gpu-9", 1000)]


def test_a_pod_names_cards_of_its_own_node_alone():
    texts = saying(0, gpu=[{"minor": 0, "id": "x/../koordinator/other/gpu-0" * 9}])
    [row] = rows([pod(texts=texts, node="mine")])

    assert row[1] == "koordinator/mine/gpu-0" and len(row[2]) <= 80


def test_reports_name_the_card_and_give_it_no_more_than_the_pod_is_charged():
    events = [pod(texts=saying(1)), given.pod_vanished(at=90, deletion=60, card_texts=saying(1))]
    with folded(given.numbered(events)).engine.connect() as connection:
        found = reports.report(connection, Question(by=("device",), as_of_s=given.START_S + 1_000))

    assert {row.key: row.sums.gpu_milli_s for row in found if row.sums.gpu_milli_s} == {
        ("koordinator/n/gpu-1",): 30_000
    }


@pytest.mark.parametrize(
    "name",
    [
        ALLOCATED,
        "hami.io/vgpu-devices-allocated",
        "runai-gpu-group",
        "runai-gpu-group/" + "x" * 3_000,
    ],
)
def test_a_pod_with_long_words_of_cards_is_in_the_ledger_like_any_other(name):
    """An annotation of a few hundred characters took a pod out of the books."""
    texts = {name: "y" * 16_000}
    found = folded(sequenced([pod(texts=texts)])).select(sa.select(pod_runs))
    cards = saying(*range(8), fpga=[{"minor": 0, "id": "x" * 4_000}])

    assert len(found) == 1
    assert [row[5] for row in rows([pod(texts=cards, asked={f"{K}gpu": "800"})])] == [1000] * 8
    assert all(len(row[1]) < 400 for row in rows([pod(texts=texts)]))


def test_hundredths_of_cards_are_no_cards_of_their_own():
    assert offered({f"{K}gpu": "800"}, {}) == {"koordinator": 8_000}
    assert offered({f"{K}gpu": "800", "nvidia.com/gpu": "8"}, {}) == {"nvidia": 8_000}
    assert offered({"kubernetes.io/gpu": "150", f"{K}gpu": "x"}, {}) == {"koordinator": 1_500}


@pytest.mark.parametrize("seed", range(6))
def test_rows_depend_neither_on_order_nor_on_batches(seed):
    dice, events = Random(seed), [given.node_observed(model="A100")]
    for number in range(12):
        uid, cards = f"p{dice.randrange(4)}", dice.sample(range(4), dice.randrange(3))
        asked = {f"{K}gpu": dice.choice(("30", "100", "200"))}
        events.append(pod(uid, saying(*cards), 10 + number, 10 * number, asked, created=0))
    events.append(given.pod_vanished("p1", 90, 200, deletion=150))
    mixed = [*events, *dice.sample(events, 5)]
    dice.shuffle(mixed)

    assert (
        rows(events)
        == rows(mixed)
        == rows(mixed, batch=1)
        == rows(events, batch=3, restart_every=2)
    )
    assert rows(events)
