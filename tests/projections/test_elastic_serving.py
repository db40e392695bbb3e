"""Which quota pods spend that no label puts into one: the ElasticQuota that serves their namespace, over time and in any order."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.events.quotas import Serves
from projections.budgets.rows import budget_spends
from projections.pod_runs import held_segments
from reactors.admission.state.state import AdmissionState
from tests import factories as f
from tests.projections.elastic import elastic, gone, pod
from tests.projections.ledger import folded, rows, tables

BIZ, KOORDINATOR = "biz.group.resource.quota", "quota.scheduling.koordinator.sh/name"


def spent(*events, **options):
    """(pod, from, until, quota) of every segment."""
    store = folded(f.numbered([*events, f.node_observed(at=900)]), **options)
    return [
        (r["uid"], r["start_s"] - f.START_S, r["end_s"] and r["end_s"] - f.START_S, r["quota"])
        for r in rows(store, held_segments)
    ]


@pytest.mark.parametrize(
    "said",
    [
        [elastic("ns")],
        [elastic("listing", "quotas", namespaces=("ns", "more")), elastic("alone")],
        [elastic("alone"), elastic("top", is_parent=True)],
        [elastic("ns"), elastic("listing", "quotas", namespaces=("ns",)), elastic("second")],
    ],
    ids=["called like it", "lists it", "the only one that holds pods", "the first of these"],
)
def test_pods_without_labels_spend_the_elastic_quota_that_serves_their_namespace(said):
    assert spent(*said, pod()) == [("p", 0, None, _name(said[0]))]
    assert spent(pod(), *said) == [("p", 0, None, _name(said[0]))]


def _name(event):
    return f.msgspec.json.decode(event.body)["name"]


def test_of_several_leaves_none_serves_and_elsewhere_nobody_does():
    events = [elastic("a"), elastic("b"), elastic("c", "other"), pod(), pod("q", "third")]

    assert spent(*events) == [("p", 0, None, ""), ("q", 0, None, "")]


def test_labels_go_before_the_quota_that_serves_the_namespace():
    events = [
        elastic("team"), pod("b", labels={BIZ: "biz"}), pod("k", labels={KOORDINATOR: "other"}),
        f.namespace_observed("mapped", labels={BIZ: "biz"}), elastic("m", "mapped"), pod("m", "mapped"),
    ]  # fmt: skip

    assert spent(*events) == [("b", 0, None, "biz"), ("k", 0, None, "other"), ("m", 0, None, "biz")]


def test_a_type_counts_where_a_quota_serves_the_namespace():
    events = [elastic("team"), pod(labels={f"{BIZ}/cpu-type": "A4"})]

    assert rows(folded(f.numbered(events)), held_segments)[0]["cpu_type"] == "A4"


def test_a_quota_serves_from_its_creation_until_its_delete_and_each_change_cuts():
    events = [
        pod(), elastic("first", at=50, created=20), elastic("second", at=200, created=200),
        gone("first", at=300), elastic("second", version=10, at=400, namespaces=("x",), created=200),
    ]  # fmt: skip

    assert spent(*events) == [
        ("p", 0, 20, ""), ("p", 20, 200, "first"), ("p", 200, 300, ""), ("p", 300, 400, "second"),
        ("p", 400, None, ""),
    ]  # fmt: skip


def test_what_is_said_first_holds_back_to_the_creation_or_for_all_time_without_one():
    assert spent(pod(), elastic("team", at=500)) == [("p", 0, None, "team")]
    assert spent(pod(), elastic("team", at=500, created=None)) == [("p", 0, None, "team")]


def test_pods_that_ended_and_pods_that_never_ran_are_attributed_as_well():
    ended = pod(phase="Succeeded", finished=(60,), at=60)

    assert spent(ended, elastic("team", at=500), ended_kept=0, batch=1, restart_every=1) == [
        ("p", 0, 60, "team")
    ]


def test_a_namesake_in_another_namespace_spends_nobodys_quota():
    """Whoever may create quotas in his own namespace cannot spend another team's by its name."""
    events = [elastic("team"), elastic("team", "mine", created=10), pod(), pod("m", "mine")]

    assert spent(*events) == [("m", 0, None, ""), ("p", 0, None, "team")]


def test_no_elastic_quota_spends_the_budget_of_a_business_quota_that_serves_others():
    """Neither by its own name nor by Koordinator's label: a business quota that names namespaces serves no others."""
    vault = f.quota_observed("vault", 1, 0, hard={}, serves=Serves(("safe",)))
    opened = f.quota_observed("vault", 2, 70, hard={}, serves=Serves(("safe", "ns")))
    events = [elastic("vault"), pod(), pod("k", "other", {KOORDINATOR: "vault"}), vault]

    assert spent(*events) == [("k", 0, None, ""), ("p", 0, None, "")]
    assert not rows(folded(f.numbered(events)), budget_spends)
    assert spent(*events, opened)[1:] == [("p", 0, 70, ""), ("p", 70, None, "vault")]


NAMESPACES, QUOTAS = ("ns", "other"), ("ns", "a", "b")
_times = st.integers(0, 9).map(lambda n: n * 10)


@st.composite
def _objects(draw, strange=True):
    """Lives of ElasticQuotas: each observed once or more, some deleted, some made again under the same name.

    ``strange``: lives of one name overlap, and stamps of creation are missing or wrong.
    """
    events, version, free = [], itertools.count(1), {}
    pairs = [(one, where) for one in QUOTAS for where in NAMESPACES]
    for name, namespace in draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=5)):
        uid, created = f"u{next(version)}", draw(st.one_of(st.none(), _times))
        begin = 0 if strange else free.get((name, namespace), 0)
        moments = sorted(begin + at for at in draw(st.lists(_times, min_size=1, max_size=3)))
        created = created if strange else moments[0]
        for at in moments:
            fields = {
                "namespaces": draw(st.sampled_from(((), (), ("ns",), ("ns", "other")))),
                "is_parent": draw(st.sampled_from((False, False, True))),
            }
            events.append(elastic(name, namespace, next(version), at, created, uid, **fields))
        if draw(st.booleans()):
            at += draw(_times)
            events.append(gone(name, namespace, next(version), at, uid))
        free[(name, namespace)] = at + 10
    return events


@given(
    _objects(), st.randoms(use_true_random=False), st.sampled_from((1, 3, 1000)), st.booleans(),
    st.sampled_from((0, 20_000)),
)  # fmt: skip
def test_the_order_of_facts_and_the_size_of_batches_change_nothing(
    objects, random, batch, restarts, ended_kept
):
    events = [*objects, pod(), pod("q", "other", at=60, phase="Succeeded", finished=(60,))]
    events.append(f.namespace_observed("ns", at=30, labels={KOORDINATOR: "b"}))
    want = tables(f.numbered(events), without=("sequence",))
    random.shuffle(events)
    options = {"batch": batch, "restart_every": int(restarts), "ended_kept": ended_kept}

    assert want == tables(f.numbered(events), without=("sequence",), **options)


@given(_objects(strange=False), st.sampled_from((None, BIZ, KOORDINATOR)))
def test_the_ledger_and_admission_charge_the_same_quota_at_the_end(objects, label):
    """What a pod spends last is what admission charges to it, from the same facts."""
    labels = {label: "a"} if label else {}
    events = sorted(objects, key=lambda event: event.time_us)
    pods = [pod(f"p-{namespace}", namespace, labels) for namespace in NAMESPACES]
    view = AdmissionState(f.CLUSTER)
    for event in events:
        view.apply(event)
    ledger = {uid: quota for uid, _, _, quota in spent(*pods, *events)}

    for namespace in NAMESPACES:
        where = view.counted(labels, namespace)
        assert ledger[f"p-{namespace}"] == (where.quota if where else "")
