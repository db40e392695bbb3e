"""Changes of quotas that people ask for, decided before they are stored, and what is seen of them afterwards."""

import pytest

from projections.quota_trees import TreeOverlay
from reactors.admission.deciding.decide import decide
from reactors.admission.deciding.declare import (
    MAX_CHILDREN,
    MAX_LEVELS,
    MAX_PENDING,
    Proposal,
    declare,
)
from tests.quota_trees import CPU, observed, request, said

MEMORY = "requests.memory"

# --- quotas ----------------------------------------------------------------------------------------


def test_a_child_takes_its_limit_from_its_parent_as_a_whole(family):
    assert ("refused", "over-quota") == said(family.ask(demand=4))
    assert ("admitted", "fits") == said(family.ask(demand=3))
    answer = family.propose("c", 1, parent="q")

    assert ("refused", "over-parent") == said(answer)
    assert [(CPU, 1, 10, 10)] == [(d.key, d.asked, d.used, d.limit) for d in answer.deficits]


def test_a_raise_counts_for_the_parent_when_admitted_and_below_when_seen(family):
    family.propose("a", 7, parent="q", operation="UPDATE")

    assert family.used() == 10
    assert ("refused", "over-quota") == said(family.ask(demand=5, quota="a"))
    family.show_quota("a", 7, parent="q", at=1)
    assert ("admitted", "fits") == said(family.ask(demand=5, quota="a"))


def test_a_cut_counts_below_when_admitted_and_for_the_parent_when_seen(family):
    family.propose("a", 1, parent="q", operation="UPDATE")

    assert family.used() == 7
    assert ("refused", "over-quota") == said(family.ask(demand=2, quota="a"))
    family.show_quota("a", 1, parent="q", at=1)
    assert family.used() == 4


def test_a_raise_of_the_parent_gives_nothing_until_it_is_seen(family):
    family.propose("q", 20, operation="UPDATE")

    assert ("refused", "over-parent") == said(family.propose("c", 9, parent="q"))
    family.show_quota("q", 20, at=1)
    assert ("admitted", "fits") == said(family.propose("c", 9, parent="q", at=2))


def test_a_parent_may_be_lowered_below_what_its_children_claim(family):
    """Row C6: accepted as over-committed, no new admits."""
    assert ("admitted", "fits") == said(family.propose("q", 5, operation="UPDATE"))
    family.show_quota("q", 5, at=1)

    assert ("refused", "over-quota") == said(family.ask())
    assert ("refused", "over-parent") == said(
        family.propose("a", 5, parent="q", operation="UPDATE", at=2)
    )
    assert ("admitted", "fits") == said(
        family.propose("a", 3, parent="q", operation="UPDATE", at=3)
    )


def test_a_name_that_exists_and_one_that_is_asked_for_elsewhere_are_refused(family):
    assert ("refused", "name-exists") == said(family.propose("a", 1, parent="q"))
    family.propose("new", 1, parent="q")

    assert ("refused", "name-exists") == said(family.propose("new", 1, parent="a"))
    assert ("admitted", "fits") == said(family.propose("new", 1, parent="q"))


def test_a_parent_cannot_be_changed(family):
    """Row C9: a group is re-parented while it admits."""
    answer = family.propose("a", 1, parent="b", operation="UPDATE", old_parent="q")

    assert ("refused", "parent-immutable") == said(answer)


@pytest.mark.parametrize(("parent", "want"), [("x", "own-parent"), ("nobody", "parent-unknown")])
def test_a_parent_is_another_quota_that_is_known(books, parent, want):
    """Row C7: self parent."""
    assert ("refused", want) == said(books.propose("x", 1, parent=parent))


def test_a_quota_cannot_be_put_below_one_that_names_it_as_its_parent(books):
    """Row C7: cycle in the group tree. The parent of ``a`` was deleted past the webhook."""
    books.show_quota("a", 4, parent="x")
    books.show_quota("b", 4, parent="a")

    assert ("refused", "own-parent") == said(books.propose("x", 1, parent="b"))


def test_a_parent_that_was_not_seen_yet_or_is_being_deleted_is_unready(books):
    books.propose("new", 1)
    assert ("refused", "parent-unready") == said(books.propose("x", 0, parent="new"))

    books.propose("q", None, operation="DELETE")

    assert ("refused", "parent-unready") == said(books.propose("x", 0, parent="q"))


def test_a_tree_has_at_most_sixteen_levels(books):
    """Row C7: depth."""
    for level in range(1, MAX_LEVELS):
        books.show_quota(f"l{level}", 1, parent=f"l{level - 1}" if level > 1 else "q")

    assert ("refused", "too-deep") == said(books.propose("x", 1, parent=f"l{MAX_LEVELS - 1}"))
    assert ("admitted", "fits") == said(books.propose("x", 0, parent=f"l{MAX_LEVELS - 2}"))


def test_a_quota_has_at_most_five_thousand_children(books):
    """Row C7: children."""
    for number in range(MAX_CHILDREN):
        books.tree.apply(
            observed(books.tree, f"c{number}", 0, parent="q"), books.tree.sequence + 1, 0
        )

    assert ("refused", "too-many-children") == said(books.propose("x", 0, parent="q"))
    assert ("admitted", "fits") == said(books.propose("c0", 1, parent="q", operation="UPDATE"))


def test_a_child_names_every_key_of_its_parent(family):
    answer = family.propose("c", {MEMORY: 1}, parent="q")

    assert (("refused", "missing-keys"), (CPU,)) == (said(answer), answer.keys)
    answer = family.propose("q", {CPU: 10, MEMORY: 5}, operation="UPDATE")
    assert (("refused", "missing-keys"), (MEMORY,)) == (said(answer), answer.keys)


def test_a_quota_has_a_bounded_number_of_changes_on_their_way(books):
    for hard in range(MAX_PENDING):
        assert ("admitted", "fits") == said(books.propose("q", hard, operation="UPDATE"))

    assert ("refused", "too-many-changes") == said(books.propose("q", 99, operation="UPDATE"))


def test_a_quota_with_children_or_in_use_cannot_be_deleted(family):
    """Row C8: group deleted with live usage."""
    family.ask(quota="a")

    assert ("refused", "has-children") == said(family.propose("q", None, operation="DELETE"))
    assert ("refused", "in-use") == said(family.propose("a", None, parent="q", operation="DELETE"))
    assert ("admitted", "fits") == said(family.propose("b", None, parent="q", operation="DELETE"))


def test_a_quota_that_is_asked_for_in_the_same_draft_is_in_use(books):
    draft = TreeOverlay(books.tree)
    draft.add(decide(draft, request(), 0), 0)

    answer = declare(draft, Proposal("DELETE", "q", "uid-q", "", None), 0)

    assert ("refused", "in-use") == said(answer)


def test_nothing_is_admitted_under_a_quota_that_is_being_deleted(books):
    books.propose("q", None, operation="DELETE")

    assert ("refused", "quota-invalid") == said(books.ask())
    books.show_quota("q", None, at=1)
    assert ("refused", "quota-unknown") == said(books.ask())


def test_the_delete_of_a_quota_that_nobody_knows_leaves_nothing_behind(books):
    books.propose("unknown", None, operation="DELETE")

    assert {"q"} == set(books.tree.nodes)


# --- what was seen of quotas -----------------------------------------------------------------------


def test_a_change_that_is_not_the_one_seen_stays_pending_until_it_can_no_longer_land(books):
    books.propose("q", 2, operation="UPDATE", at=100)

    books.show_quota(hard=10, at=174)
    assert ("refused", "over-quota") == said(books.ask(demand=3, at=174))
    books.show_quota(hard=10, at=175)
    assert ("admitted", "fits") == said(books.ask(demand=3, at=175))


def test_the_delete_of_a_namesake_says_nothing_of_a_quota_about_to_be_created(books):
    """Found by the model: the parent gave twice what the first child had."""
    books.propose("c", 4, parent="q", at=100)

    assert books.show_quota("c", None, parent="q", uid="uid-of-an-older-c", at=101) is None
    assert books.used() == 4
    assert books.show_quota("c", None, parent="q", uid="uid-of-an-older-c", at=175)
    assert books.used() == 0


def test_a_list_without_a_quota_says_nothing_while_it_may_still_be_created(books):
    books.propose("c", 4, parent="q", at=100)

    assert books.show_quota("c", None, parent="q", at=174) is None
    assert books.show_quota("c", None, parent="q", at=175)
