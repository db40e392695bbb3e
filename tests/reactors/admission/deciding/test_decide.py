"""Admission decisions, and what the keeper gives back: each rule in its own words."""

import pytest

from projections.quota_trees import TreeOverlay
from reactors.admission.deciding.decide import decide
from tests.quota_trees import CPU, request, said

MEMORY = "requests.memory"


# --- asks ------------------------------------------------------------------------------------------


def test_what_fits_exactly_is_admitted_and_one_more_is_refused_with_its_deficit(books):
    assert ("admitted", "fits") == said(books.ask("v", 10))
    answer = books.ask("w", 1)

    assert ("refused", "over-quota") == said(answer)
    assert [(d.key, d.asked, d.used, d.limit, d.own) for d in answer.deficits] == [
        (CPU, 1, 10, 10, 10)
    ]


def test_a_deficit_tells_what_the_askers_own_namespace_holds_of_it(books):
    books.ask("u", 4, namespace="others")
    books.ask("v", 3)

    (deficit,) = books.ask("w", 4).deficits

    assert (7, 3) == (deficit.used, deficit.own)


def test_all_keys_fit_or_nothing_is_charged(books):
    books.show_quota(hard={CPU: 10, MEMORY: 1}, at=1)

    answer = books.ask(demand={CPU: 1, MEMORY: 2})

    assert [MEMORY] == [deficit.key for deficit in answer.deficits]
    assert (0, 0) == (books.used(), books.used(key=MEMORY))


def test_a_typed_demand_needs_the_typed_key_and_the_plain_key(books):
    """Worked example of the article: limits.cpu 10 with limits.cpu.A4 4."""
    books.show_quota(hard={CPU: 10, "limits.cpu.A4": 4}, at=1)

    assert ("admitted", "fits") == said(books.ask("u", 4, types={"cpu": "A4"}))
    assert ("refused", "over-quota") == said(books.ask("v", 1, types={"cpu": "A4"}))
    assert ("admitted", "fits") == said(books.ask("w", 6))
    assert ("refused", "over-quota") == said(books.ask("x", 1))


def test_the_same_ask_twice_charges_once(books):
    """Row D10: same uid again, in a retry or a re-invocation."""
    first, second = books.ask(demand=6), books.ask(demand=6, at=1)

    assert [("admitted", "fits"), ("admitted", "fewer")] == [said(first), said(second)]
    assert books.used() == 6


def test_the_same_create_by_two_api_servers_charges_once(books):
    """Row D11: both decided on the same view; the append of one fails, and it decides again."""
    one, other = TreeOverlay(books.tree), TreeOverlay(books.tree)
    one.add(decide(one, request(demand=6), 0), 0)
    decide(other, request(demand=6), 0)
    one.store([books.tree.sequence + 1])

    books.ask(demand=6, at=1)

    assert books.used() == 6


def test_a_size_that_changed_charges_the_difference(books):
    """Rows D6 and D10: a resize that raises, a re-invocation with a mutated object."""
    books.ask(demand=4)

    assert ("admitted", "fits") == said(books.ask(demand=10, at=1))
    assert ("refused", "over-quota") == said(books.ask(demand=11, at=2))
    assert books.used() == 10


def test_the_old_size_is_taken_from_the_journal_never_from_the_request(books):
    """Row D7: there is nothing in a request that could lower what is charged."""
    assert "old" not in " ".join(request().__struct_fields__)
    books.ask("u", 9)

    assert ("refused", "over-quota") == said(books.ask("w", 2, operation="UPDATE"))


def test_an_object_without_a_name_is_charged_by_its_uid(books):
    """Row D8: generateName; the uid is what a charge is about."""
    books.ask("uid-1", 4, name="job-")
    books.ask("uid-2", 4, name="job-")

    assert books.used() == 8


def test_a_dry_run_is_evaluated_and_charges_nothing(books):
    """Row D9: the decision that nobody stores."""
    draft = TreeOverlay(books.tree)

    assert ("admitted", "fits") == said(decide(draft, request(demand=10), 0))
    assert books.used() == 0
    assert ("admitted", "fits") == said(books.ask("w", 10))


def test_what_falls_is_admitted_and_stays_charged_until_it_is_seen(books):
    """Row D6: a shrink releases only when observed."""
    books.ask(demand=10)
    books.show(demand=10, at=1)

    assert ("admitted", "fewer") == said(books.ask(demand=4, at=100))
    assert books.used() == 10
    assert ("refused", "over-quota") == said(books.ask("v", 1, at=101))
    books.show(demand=4, at=102)
    assert books.used() == 4


def test_a_fall_is_admitted_above_the_limit(books):
    """Row C6: a quota lowered below what is used; nothing more rises, nothing is evicted."""
    books.ask(demand=8)
    books.show_quota(hard=5, at=1)

    assert ("admitted", "fewer") == said(books.ask(demand=7, at=2))
    assert ("refused", "over-quota") == said(books.ask("v", 1, at=3))
    assert books.used() == 8


def test_one_key_may_fall_while_another_rises(books):
    books.show_quota(hard={CPU: 10, MEMORY: 10}, at=1)
    books.ask(demand={CPU: 10, MEMORY: 2})

    books.ask(demand={CPU: 1, MEMORY: 10}, at=2)

    assert (10, 10) == (books.used(), books.used(key=MEMORY))


def test_keys_without_a_limit_are_not_limited(books):
    assert ("admitted", "fits") == said(books.ask(demand={"limits.example.com/x": 10**12}))


@pytest.mark.parametrize(
    ("quota", "spec", "want"),
    [
        ("other", {}, "quota-unknown"),
        ("q", {"problem": "spec.hard: negative"}, "quota-invalid"),
        ("q", {"namespaces": ("team",)}, "quota-not-yours"),
    ],
)
def test_a_quota_that_cannot_be_used_refuses(books, quota, spec, want):
    books.show_quota(hard=10, at=1, **spec)

    assert ("refused", want) == said(books.ask(quota=quota))


def test_a_quota_that_was_not_seen_yet_is_unready(books):
    books.propose("new", 5)

    assert ("refused", "quota-unready") == said(books.ask(quota="new"))
    books.show_quota("new", 5)
    assert ("admitted", "fits") == said(books.ask(quota="new"))


def test_ten_requests_in_one_draft_are_decided_one_after_the_other(books):
    """Requests that share one append see each other."""
    draft = TreeOverlay(books.tree)
    for number in range(10):
        draft.add(decide(draft, request(f"w{number}", 3), 0), 0)

    verdicts = [fact.verdict for fact, _ in draft.facts]

    assert ["admitted"] * 3 + ["refused"] * 7 == verdicts


# --- budgets ---------------------------------------------------------------------------------------


def test_a_spent_budget_refuses_what_rises_and_lets_fall_what_falls(books):
    """Row C11: a budget smaller than already spent is exhausted at once, and nothing is taken back."""
    books.show_quota(hard=10, cash={CPU: 100}, at=1)
    books.ask(demand=4)
    books.meter(spent=40, rate=4, at=10)

    assert ("admitted", "fits") == said(books.ask(demand=5, at=24))
    answer = books.ask(demand=6, at=25)
    assert ("refused", "budget-exhausted") == said(answer)
    assert [("cash/limits.cpu", 0, 100, 100)] == [
        (d.key, d.asked, d.used, d.limit) for d in answer.deficits
    ]
    assert ("admitted", "fewer") == said(books.ask(demand=1, at=26))


def test_a_budget_of_zero_is_none(books):
    """Row C11: core-hour budget 0."""
    books.show_quota(hard=10, cash={CPU: 0}, at=1)

    assert ("refused", "budget-exhausted") == said(books.ask())


def test_credits_count_for_the_budget(books):
    books.show_quota(hard=10, cash={CPU: 100}, at=1)
    books.meter(spent=100, credits=50)

    assert ("admitted", "fits") == said(books.ask())


def test_a_new_period_begins_with_nothing_spent(books):
    books.show_quota(hard=10, cash={CPU: 100}, at=1)
    books.meter(spent=100, resets_s=50)

    assert ("refused", "budget-exhausted") == said(books.ask(at=49))
    assert ("admitted", "fits") == said(books.ask(at=50))


def test_a_warned_budget_admits_and_says_what_it_is_warned_of(books):
    books.show_quota(hard=10, cash={CPU: 100}, exhaustion="Warn", at=1)
    books.meter(spent=100)

    answer = books.ask()

    assert ("admitted", "fits") == said(answer)
    assert ["cash/limits.cpu"] == [deficit.key for deficit in answer.deficits]


# --- what was seen of objects ----------------------------------------------------------------------


def test_what_nobody_asked_for_is_charged_unchecked_when_it_is_seen(books):
    """Row D20: created before Bursar, or while it was away; flagged, and above the limit if need be."""
    books.ask("v", 8)

    (fact,) = books.show(demand=5)

    assert ("adopted", "ungoverned") == said(fact)
    assert books.used() == 13
    assert books.tree.nodes["q"].grants["w"].is_adopted


def test_a_delete_of_an_object_that_was_never_admitted_changes_nothing(books):
    """Row D20: release cannot go negative."""
    assert [] == books.show(is_gone=True)
    assert books.used() == 0


def test_a_grant_that_no_object_follows_lapses_when_a_list_shows_that_it_cannot_come(books):
    """P15 and P16: absent from a complete list, and older than the API server's deadline and a margin."""
    books.ask(at=100)

    assert [] == books.miss(at=174)
    (fact,) = books.miss(at=175)

    assert ["lapsed"] == [release.reason for release in fact.releases]
    assert books.used() == 0


def test_a_deleted_object_is_given_back_at_once(books):
    books.ask(at=100)

    (fact,) = books.show(is_gone=True, at=101)

    assert ["vanished"] == [release.reason for release in fact.releases]


def test_an_old_size_releases_nothing_while_a_raise_may_be_on_its_way(books):
    books.ask(demand=2, at=0)
    books.show(demand=2, at=1)
    books.ask(demand=5, at=100)

    assert [] == books.show(demand=2, at=174)
    books.show(demand=2, at=175)

    assert books.used() == 2


def test_a_shrink_beside_a_raise_is_given_back_only_when_neither_can_land(books):
    books.ask(demand=5, at=0)
    books.ask(demand=2, at=10)

    assert [] == books.show(demand=2, at=11)
    books.show(demand=2, at=85)

    assert books.used() == 2


def test_the_second_review_of_a_change_does_not_delay_its_release(books):
    """``kubectl scale`` makes two reviews of one change."""
    books.ask(demand=5, at=0)
    books.ask(demand=2, at=100)
    books.ask(demand=2, at=101)

    books.show(demand=2, at=102)

    assert books.used() == 2


def test_an_object_that_moved_is_charged_where_it_is_and_given_back_where_it_was(family):
    family.ask(demand=2, quota="a", at=0)
    family.show(demand=2, quota="a", at=1)
    family.ask(demand=2, quota="b", at=100)
    assert (2, 2) == (family.used("a"), family.used("b"))

    family.show(demand=2, quota="b", at=101)

    assert (0, 2) == (family.used("a"), family.used("b"))


def test_an_object_that_ended_holds_nothing(books):
    books.ask(demand=2, at=0)
    books.show(demand=2, at=1)

    (fact,) = books.show(demand={}, at=2)

    assert ["finished"] == [release.reason for release in fact.releases]
    assert {} == books.tree.holders


def test_facts_of_one_piece_of_evidence_follow_each_other(family):
    """Charged where it belongs before it is given back where it was."""
    family.ask(demand=2, quota="a", at=0)
    family.show(demand=2, quota="a", at=1)

    facts = family.show(demand=3, quota="b", at=200)

    assert ["AdmissionDecided", "AdmissionReleased"] == [type(fact).__name__ for fact in facts]
    assert (0, 3) == (family.used("a"), family.used("b"))
