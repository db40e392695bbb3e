"""Disruption budgets: what of a record becomes the fact."""

from bus.events.constraints import LabelSelector, Requirement
from bus.events.pods import DisruptionBudgetObserved
from bus.sources.catalogue import DISRUPTION_BUDGETS
from tests.bus.sources.records import POLICY, body, record

METADATA = {"uid": "u", "name": "b", "namespace": "ns", "resourceVersion": "7"}


def fact_of(selector=None, **status):
    thing = {"metadata": METADATA, "spec": {"selector": selector}, "status": status}
    return DisruptionBudgetObserved.read(DISRUPTION_BUDGETS.translate(record(thing), POLICY))


def test_a_budget_says_whom_it_protects_and_how_many_may_go():
    selector = {"matchLabels": {"app": "a"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}  # fmt: skip
    found = fact_of(selector, disruptionsAllowed=2, disruptedPods={"b": "x", "a": "y"})

    assert found.selector == LabelSelector({"app": "a"}, (Requirement("tier", "Exists"),))
    assert (found.allowed, found.disrupted, found.unkept_labels) == (2, ("a", "b"), ("tier",))


def test_a_selector_that_is_too_large_hides_no_budget():
    found = fact_of({"matchLabels": {f"k{number}": "v" * 60 for number in range(500)}})

    assert (found.selector, found.is_cut) == (None, True)


def test_a_deleted_budget_has_vanished():
    event = DISRUPTION_BUDGETS.translate(record({"metadata": METADATA}, "DELETED"), POLICY)
    said = {"uid": "u", "name": "b", "namespace": "ns", "resource_version": "7"}

    assert (event.type, body(event)) == ("disruptionbudget.vanished", said)
