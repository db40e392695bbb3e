"""What would let a refused request pass with the least change: each advice is enough, and one less is not."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.kube.kinds import GOVERNED, asked
from projections.quota_trees import TreeOverlay
from reactors.admission.deciding.advice import advise, fewer, resized
from reactors.admission.deciding.decide import Request, decide
from tests.quota_trees import CPU, Books

KINDS = {kind.kind: kind for kind in GOVERNED}
TEMPLATE = {"spec": {"containers": [{"resources": {"limits": {"cpu": "1m"}}}]}}


def deployment(replicas):
    return {"spec": {"replicas": replicas, "template": TEMPLATE}}


def refused(books, object, kind="Deployment", at=0):
    """(request, decision, advice) of an object in quota ``q``."""
    ask = asked(KINDS[kind], object)
    request = Request("q", "new", kind, "ns", "new", ask.demand)
    draft = TreeOverlay(books.tree)
    decision = decide(draft, request, at * 10**6)
    return (
        request,
        decision,
        advise(draft, KINDS[kind], object, request, decision, at * 10**6, lambda ask: ask),
    )


def tree(hard, used, **fields):
    books = Books()
    books.show_quota("q", hard, **fields)
    if used:
        books.ask("other", used)
    return books


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 30))
def test_the_most_replicas_that_are_admitted_and_one_more_is_not(hard, used, replicas):
    books = tree(max(hard, used), used)
    request, decision, advice = refused(books, deployment(replicas))
    if decision.verdict == "admitted":
        return

    def verdict(count):
        ask = asked(KINDS["Deployment"], resized(deployment(replicas), "spec.replicas", count))
        again = msgspec.structs.replace(request, demand=ask.demand)
        return decide(TreeOverlay(books.tree), again, 0).verdict

    fits = advice.fits or 0
    assert (advice.path, advice.replicas) == ("spec.replicas", replicas)
    assert fits == 0 or verdict(fits) == "admitted"
    assert verdict(fits + 1) == "refused"


@given(st.integers(0, 20), st.integers(1, 20), st.integers(1, 30))
def test_what_others_have_to_give_back_is_enough_and_one_less_is_not(hard, used, replicas):
    hard = max(hard, used)
    _, decision, advice = refused(tree(hard, used), deployment(replicas))
    free = advice.free.get(CPU, 0)
    if decision.verdict == "admitted" or free > used:
        return

    assert refused(tree(hard, used - free), deployment(replicas))[1].verdict == "admitted"
    assert refused(tree(hard, used - free + 1), deployment(replicas))[1].verdict == "refused"


@pytest.mark.parametrize(("above", "has_room"), [(12, True), (11, False)])
def test_the_limit_that_the_quota_would_need_and_whether_its_parent_admits_it_now(above, has_room):
    books = Books()
    books.show_quota("p", above)
    books.show_quota("q", 8, "p")
    books.ask("other", 8)

    advice = refused(books, deployment(4))[2]

    assert (advice.hard, advice.has_room_above) == ({CPU: 12}, has_room)


def test_a_spent_budget_needs_one_unit_more_than_what_is_overspent_or_its_next_period():
    books = tree(10, 0, cash={CPU: 100})
    books.meter(spent=130, resets_s=500, at=5)

    decision, advice = refused(books, deployment(4), at=5)[1:]

    assert decision.reason == "budget-exhausted"
    assert (advice.credit, advice.resets_s, advice.free) == ({CPU: 31}, 500, {})
    books.meter(spent=130, credits=31, resets_s=500, at=5)
    assert refused(books, deployment(4), at=5)[1].verdict == "admitted"


def test_a_spent_budget_that_never_begins_anew_has_no_next_period():
    books = tree(10, 0, cash={CPU: 100, "limits.memory": 5})
    books.meter(spent=130, resets_s=500, at=5)
    books.meter("limits.memory", spent=5, at=5)

    advice = refused(books, deployment(4), at=5)[2]

    assert (advice.credit, advice.resets_s) == ({CPU: 31, "limits.memory": 1}, 0)


def test_where_budget_and_limit_refuse_both_numbers_are_told():
    books = tree(10, 8, cash={CPU: 100})
    books.meter(spent=100, at=5)

    advice = refused(books, deployment(4), at=5)[2]

    assert (advice.credit, advice.free, advice.fits) == ({CPU: 1}, {CPU: 2}, None)


def test_a_refusal_that_is_not_about_amounts_has_no_advice():
    _, decision, advice = refused(Books(), deployment(4))

    assert decision.reason == "quota-unknown"
    assert (advice.path, advice.free, advice.hard) == ("", {}, {})


@pytest.mark.parametrize(
    ("kind", "object", "want"),
    [
        ("Job", {"spec": {"parallelism": 5, "template": TEMPLATE}}, ("spec.parallelism", 5, 3)),
        ("Pod", TEMPLATE, ("", 0, None)),
        ("Notebook", {"spec": {"template": TEMPLATE}}, ("", 0, None)),
        (
            "PyTorchJob",
            {"spec": {"pytorchReplicaSpecs": {
                "Master": {"template": TEMPLATE}, "Worker": {"replicas": 5, "template": TEMPLATE}}}},
            ("spec.pytorchReplicaSpecs.Worker.replicas", 5, 2),
        ),
        (
            "PyTorchJob",
            {"spec": {"runPolicy": {"schedulingPolicy": {"minAvailable": 4}}, "pytorchReplicaSpecs": {
                "Master": {"template": TEMPLATE}, "Worker": {"replicas": 5, "template": TEMPLATE}}}},
            ("spec.pytorchReplicaSpecs.Worker.replicas", 5, None),
        ),
    ],
    ids=["a job", "a pod", "a notebook", "the workers of a training job", "not below its gang"],
)  # fmt: skip
def test_the_field_with_the_number_of_pods_and_the_largest_smaller_one_that_is_admitted(
    kind, object, want
):
    assert want == fewer(KINDS[kind], object, lambda ask: ask.pods <= 3)


def test_one_replica_is_found_and_none_is_not():
    found = [
        fewer(KINDS["Deployment"], deployment(9), lambda ask, most=most: ask.pods <= most)[2]
        for most in (1, 0)
    ]

    assert found == [1, None]
