"""Quotas that select namespaces by their labels: over time, in any order, and as admission has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.events.quotas import NamespaceRequirement, Serves
from projections.attribution import AttributionRule, SeenNamespace, selectable
from reactors.admission.state.state import AdmissionState
from tests import factories as f
from tests.projections.ledger import tables
from tests.projections.spending import BIZ, pod, spent

TIER = "bursar.io/tier"
GOLD = NamespaceRequirement(TIER, "In", ("gold",))


def quota(name, *selector, namespaces=(), version=1, at=0, **fields):
    return f.quota_observed(
        name, version, at, hard={}, serves=Serves(namespaces, selector), **fields
    )


def namespace(version=1, at=0, **labels):
    labels = {key if key == BIZ else f"bursar.io/{key}": value for key, value in labels.items()}
    return f.namespace_observed("ns", version, at, labels=labels)


@pytest.mark.parametrize(
    ("requirement", "labels", "is_selected"),
    [
        (GOLD, {TIER: "gold"}, True),
        (GOLD, {TIER: "tin"}, False),
        (GOLD, {}, False),
        (NamespaceRequirement(TIER, "NotIn", ("tin",)), {TIER: "gold"}, True),
        (NamespaceRequirement(TIER, "NotIn", ("tin",)), {TIER: "tin"}, False),
        (NamespaceRequirement(TIER, "NotIn", ("tin",)), {}, True),
        (NamespaceRequirement(TIER, "Exists"), {TIER: ""}, True),
        (NamespaceRequirement(TIER, "Exists"), {}, False),
        (NamespaceRequirement(TIER, "DoesNotExist"), {}, True),
        (NamespaceRequirement(TIER, "DoesNotExist"), {TIER: ""}, False),
        (NamespaceRequirement("kubernetes.io/metadata.name", "In", ("ns",)), {}, True),
        (NamespaceRequirement("kubernetes.io/metadata.name", "NotIn", ("ns",)), {}, False),
        # A forged value counts for nothing: the name is the name.
        (GOLD, {TIER: "gold", "kubernetes.io/metadata.name": "x"}, True),
        (NamespaceRequirement("kubernetes.io/metadata.name", "In", ("x",)),
         {"kubernetes.io/metadata.name": "x"}, False),
        (NamespaceRequirement(TIER, "Unheard"), {TIER: "gold"}, False),
    ],
)  # fmt: skip
def test_operators_mean_what_they_mean_in_kubernetes(requirement, labels, is_selected):
    assert AttributionRule(selector=(requirement,)).has(SeenNamespace("ns", labels)) is is_selected


def test_all_requirements_have_to_hold_and_names_go_beside():
    rule = AttributionRule("", ("named",), (GOLD, NamespaceRequirement("bursar.io/zone", "Exists")))

    assert not rule.has(SeenNamespace("ns", {TIER: "gold"}))
    assert rule.has(SeenNamespace("ns", {TIER: "gold", "bursar.io/zone": "a"}))
    assert rule.has(SeenNamespace("named", {}))
    assert rule.has(SeenNamespace("named"))


def test_a_namespace_that_was_not_observed_is_selected_by_none():
    assert not AttributionRule(selector=(NamespaceRequirement(TIER, "DoesNotExist"),)).has(
        SeenNamespace("ns")
    )


def test_what_is_stored_of_a_namespace_is_what_selectors_read():
    kept = {TIER: "gold", "app.kubernetes.io/part-of": "x"}

    assert selectable({**kept, "team": "a", "example.com/tier": "gold"}) == kept


def test_a_namespace_spends_the_quota_that_selects_it_and_those_below():
    events = [
        namespace(tier="gold"), quota("vault", GOLD), quota("below", parent="vault"),
        pod("p", "vault"), pod("b", "below"), pod("x", "vault", namespace="else"),
    ]  # fmt: skip

    assert spent(events) == [
        ("b", 0, None, "below"), ("p", 0, None, "vault"), ("x", 0, None, "")
    ]  # fmt: skip


def test_a_mapped_namespace_may_name_the_quota_that_selects_it():
    mapped = {BIZ: "mine"}
    events = [quota("mine"), quota("guest", GOLD), pod("p", "guest")]

    assert spent([namespace(tier="gold", **mapped), *events]) == [("p", 0, None, "guest")]
    assert spent([namespace(tier="tin", **mapped), *events]) == [("p", 0, None, "mine")]


def test_another_label_or_another_selector_cuts_and_touches_nothing_before():
    events = [
        namespace(tier="gold"), quota("vault", GOLD), pod("p", "vault"), namespace(2, 100, tier="tin"),
        quota("vault", NamespaceRequirement(TIER, "Exists"), version=2, at=200), namespace(3, 300),
        f.node_observed(at=400),
    ]  # fmt: skip

    assert spent(events) == [
        ("p", 0, 100, "vault"), ("p", 100, 200, ""), ("p", 200, 300, "vault"), ("p", 300, None, ""),
    ]  # fmt: skip


def test_labels_that_no_selector_may_name_cut_nothing():
    events = [
        namespace(tier="gold"), quota("vault", GOLD), pod("p", "vault"),
        f.namespace_observed("ns", 2, 100, labels={TIER: "gold", "phase": "new"}),
    ]  # fmt: skip

    assert spent(events) == [("p", 0, None, "vault")]


def test_a_quota_that_cannot_be_used_serves_whom_it_served_before():
    broken = f.quota_observed("vault", 2, 100, problem="spec.hard: bad")

    assert spent([namespace(tier="tin"), quota("vault", GOLD), broken, pod("p", "vault")]) == [
        ("p", 0, None, "")
    ]


QUOTAS, PLACES = ("a", "b", "c"), ("ns", "lab")
_requirements = st.builds(
    NamespaceRequirement, st.sampled_from((TIER, "bursar.io/zone", "kubernetes.io/metadata.name")),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.sampled_from((("x",), ("x", "ns"), ("y",))),
)  # fmt: skip
_serves = st.builds(
    Serves, st.sampled_from(((), (), ("ns",), ("lab", "ns"))),
    st.lists(_requirements, max_size=2).map(tuple),
)  # fmt: skip
_labels = st.dictionaries(
    st.sampled_from((TIER, "bursar.io/zone", "team")), st.sampled_from(("x", "y")), max_size=3
)


@st.composite
def _histories(draw):
    """Quotas and namespaces as they change, are deleted and made again, one event every ten seconds."""
    events, lives = [], dict.fromkeys(QUOTAS, 0)
    for n in range(draw(st.integers(1, 10))):
        at, version = n * 10, n + 1
        name = draw(st.sampled_from((*QUOTAS, *PLACES)))
        if name in PLACES:
            mapping = draw(st.sampled_from(({}, {}, {BIZ: "a"}, {BIZ: "b"})))
            if draw(st.integers(0, 5)) == 0:
                events.append(f.namespace_vanished(name, version, at))
            else:
                labels = {**draw(_labels), **mapping}
                events.append(f.namespace_observed(name, version, at, labels=labels))
        elif draw(st.integers(0, 5)) == 0:
            events.append(f.quota_vanished(name, version, at, uid=f"{name}-{lives[name]}"))
            lives[name] += 1
        else:
            parent = draw(st.sampled_from(("", "", *QUOTAS)))
            serves = draw(st.one_of(_serves, st.none()))
            problem = "" if serves else "spec: bad"
            fields = {"uid": f"{name}-{lives[name]}", "parent": parent, "problem": problem}
            events.append(f.quota_observed(name, version, at, serves=serves, hard={}, **fields))
    return events


@given(_histories(), st.sampled_from(("", *QUOTAS)))
def test_the_ledger_and_admission_charge_the_same_quota_at_the_end(events, named):
    """What a pod spends last is what admission charges to it, from the same facts."""
    pods = [pod(f"p-{place}", named, namespace=place) for place in PLACES]
    view = AdmissionState(f.CLUSTER)
    for event in events:
        view.apply(event)
    ledger = {uid: quota for uid, _, _, quota in spent([*pods, *events])}

    for place in PLACES:
        where = view.counted({BIZ: named} if named else {}, place)
        assert ledger[f"p-{place}"] == (where.quota if where else "")


@given(_histories(), st.randoms(use_true_random=False), st.sampled_from((4, 1000)))
def test_the_order_of_facts_and_the_size_of_batches_change_nothing(events, random, batch):
    events = [*events, pod("p", "a"), pod("q", "b", namespace="lab")]
    want = tables(f.numbered(events), without=("sequence",))
    random.shuffle(events)
    options = {"batch": batch, "restart_every": 1, "ended_kept": 0}

    assert want == tables(f.numbered(events), without=("sequence",), **options)
