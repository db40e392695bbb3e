"""Who is evicted for whom: what always holds, and where the rule is stricter than the case files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.events.constraints import LabelSelector, Requirement
from projections.quota_trees.elastic import DEFAULT
from reactors.reclaim import (
    Budget,
    Pod,
    Watch,
    covers,
    importance,
    over,
    revoked,
    split_by_budget,
    watched,
)
from reactors.reclaim.preemption import (
    NO_VICTIMS,
    NODE_TOO_SMALL,
    OK,
    QUOTA_TOO_FULL,
    Selection,
    can_preempt,
    is_eligible,
    select_victims,
)

KEYS = ("cpu", "memory")
requests = st.fixed_dictionaries({key: st.integers(0, 9) for key in KEYS})


@st.composite
def pods(draw, most=7):
    return [
        Pod(
            f"p{number}",
            quota="q",
            priority=draw(st.integers(0, 3)),
            started_us=draw(st.none() | st.integers(0, 3)),
            request=draw(requests),
            preemptible=draw(st.sampled_from((True, True, False))),
        )
        for number in range(draw(st.integers(0, most)))
    ]


def total(held):
    return {key: sum(pod.request[key] for pod in held) for key in KEYS}


def left(held, gone):
    names = {pod.name for pod in gone}
    return total([pod for pod in held if pod.name not in names])


@given(pods(), requests)
def test_after_a_revocation_the_quota_fits_or_has_no_preemptible_pod_left(held, runtime):
    gone = revoked(total(held), runtime, held)

    assert not over(left(held, gone), runtime) or [p for p in held if p.preemptible] == sorted(
        gone, key=lambda pod: int(pod.name[1:])
    )


@given(pods(), requests)
def test_no_revoked_pod_could_have_stayed_beside_the_others(held, runtime):
    gone = revoked(total(held), runtime, held)
    if over(left(held, gone), runtime):
        return

    for pod in gone:
        assert over(left(held, [other for other in gone if other is not pod]), runtime)


@given(pods(), requests, st.randoms(use_true_random=False))
def test_the_order_of_the_pods_does_not_matter_to_a_revocation(held, runtime, random):
    mixed = random.sample(held, len(held))
    gone = revoked(total(held), runtime, held)

    assert gone == revoked(total(held), runtime, mixed) == sorted(gone, key=importance)
    assert all(pod.preemptible for pod in gone)


def test_evicting_a_pod_that_asks_only_cpu_does_not_hide_an_over_use_of_memory():
    held = [Pod("big", priority=5, request={"memory": 8}), Pod("small", request={"cpu": 3})]
    gone = revoked({"cpu": 3, "memory": 8}, {"cpu": 1, "memory": 4}, held)

    assert [pod.name for pod in gone] == ["big", "small"]


def test_a_pod_that_started_later_or_not_yet_is_less_important():
    early, late, waiting = Pod("a", started_us=1), Pod("b", started_us=2), Pod("0")

    assert sorted([waiting, late, early], key=importance) == [early, late, waiting]


def test_the_first_look_at_a_quota_starts_its_watch():
    watch, now = watched(None, at_us=5, is_over=True, delay_us=10)

    assert (watch, now) == (Watch(5), False)
    assert watched(watch, at_us=15, is_over=True, delay_us=10) == (watch, False)
    assert watched(watch, at_us=16, is_over=True, delay_us=10) == (Watch(16), True)


def victims(held, limit, fits=lambda kept: True, budgets=(), used=None, asks=2):
    pod = Pod("new", quota="q", priority=2, request={"cpu": asks, "memory": 0})
    used = total(held) if used is None else used
    return select_victims(pod, held, budgets, used=used, limit=limit, fits=fits)


@given(pods(), st.integers(0, 30), st.integers(0, 20))
def test_after_a_preemption_pod_and_quota_fit_and_no_victim_could_have_stayed(held, limit, room):
    def fits(kept):
        return sum(pod.request["cpu"] for pod in kept) <= room

    found = victims(held, {"cpu": limit}, fits)
    candidates = [pod for pod in held if pod.preemptible and pod.priority < 2]

    def good(gone):
        kept = [pod for pod in candidates if pod not in gone]
        return fits(kept) and left(held, gone)["cpu"] + 2 <= limit

    assert (found.status == OK) == (bool(candidates) and good(candidates))
    assert [] == [one for one in found.victims if one not in candidates]
    if found.status == OK:
        assert good(found.victims)
        assert not any(good([p for p in found.victims if p != one]) for one in found.victims)


def test_victims_are_the_least_important_ones():
    held = [
        Pod(f"p{n}", quota="q", priority=n % 2, request={"cpu": 1, "memory": 0}) for n in range(4)
    ]
    found = victims(held, {"cpu": 4})

    assert [pod.name for pod in found.victims] == ["p0", "p2"]


def test_pods_that_would_violate_a_budget_are_handed_back_first():
    held = [
        Pod("a", "ns", "q", 1, request={"cpu": 2, "memory": 0}),
        Pod("b", "ns", "q", 0, request={"cpu": 2, "memory": 0}, labels={"app": "x"}),
    ]
    budget = Budget("ns", 0, LabelSelector({"app": "x"}))

    assert victims(held, {"cpu": 4}, budgets=[budget]) == Selection(OK, (held[0],), 0)
    assert victims(held, {"cpu": 2}, budgets=[budget]) == Selection(OK, tuple(held), 1)


@pytest.mark.parametrize(
    ("held", "limit", "fits", "status"),
    [
        ([], 9, True, NO_VICTIMS),
        ([Pod("a", quota="q", request={"cpu": 1, "memory": 0})], 9, False, NODE_TOO_SMALL),
        ([Pod("a", quota="q", request={"cpu": 1, "memory": 0})], 1, True, QUOTA_TOO_FULL),
    ],
)
def test_nobody_is_evicted_for_nothing(held, limit, fits, status):
    assert victims(held, {"cpu": limit}, lambda kept: fits) == Selection(status)


def test_a_pod_that_fits_needs_no_victim():
    held = [Pod("a", quota="q", request={"cpu": 1, "memory": 0})]

    assert victims(held, {"cpu": 9}) == Selection(OK)


def test_the_default_quota_is_protected_only_where_that_is_on():
    pod, victim = Pod("a", quota=DEFAULT, priority=1), Pod("b", quota=DEFAULT)

    assert not can_preempt(pod, victim)
    assert can_preempt(pod, victim, default_quota_protected=False)


@pytest.mark.parametrize(
    ("change", "eligible"),
    [
        ({}, False),
        ({"policy_never": True, "nominated": False}, False),
        ({"nominated": False}, True),
        ({"unresolvable": True}, True),
        ({"terminating": [Pod("a", quota="q", priority=2)]}, True),
        ({"terminating": [Pod("a", quota="other")]}, True),
    ],
)
def test_a_pod_waits_for_the_room_that_is_being_made_for_it(change, eligible):
    asked = {
        "policy_never": False,
        "nominated": True,
        "unresolvable": False,
        "terminating": [Pod("a", quota="q", priority=1)],
    }

    assert is_eligible(Pod("new", quota="q", priority=2), **(asked | change)) == eligible


@pytest.mark.parametrize(
    ("expressions", "selects"),
    [
        ([("app", "In", ("x", "y"))], True),
        ([("app", "In", ("y",))], False),
        ([("app", "NotIn", ("y",)), ("other", "NotIn", ("y",))], True),
        ([("app", "Exists", ()), ("other", "DoesNotExist", ())], True),
        ([("other", "Exists", ())], False),
        ([("app", "Exists", ("x",))], False),
        ([("app", "In", ())], False),
        ([("app", "Gt", ("1",))], False),
        ([], False),
    ],
)
def test_a_selector_selects_as_kubernetes_says(expressions, selects):
    budget = Budget("ns", 0, LabelSelector({}, tuple(Requirement(*one) for one in expressions)))

    assert covers(budget, Pod("a", "ns", labels={"app": "x"})) == selects


@given(st.lists(st.sampled_from(("x", "y", "")), max_size=6), st.integers(0, 3), st.integers(0, 3))
def test_no_budget_is_overdrawn_by_the_pods_that_violate_none(apps, of_x, of_all):
    held = [Pod(f"p{n}", "ns", labels={"app": app} if app else {}) for n, app in enumerate(apps)]
    budgets = [
        Budget("ns", of_x, LabelSelector({"app": "x"})),
        Budget("ns", of_all, LabelSelector({}, (Requirement("app", "Exists"),))),
    ]
    violating, others = split_by_budget(held, budgets)

    assert sum(pod.labels.get("app") == "x" for pod in others) <= of_x
    assert sum(bool(pod.labels) for pod in others) <= of_all
    assert sorted([*violating, *others], key=held.index) == held
