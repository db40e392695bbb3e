"""Keys, trees and drafts: what the journal of a quota tree adds up to."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.clock import SECOND_US
from bus.errors import HistoryDivergedError
from bus.events.admissions import (
    AdmissionDecided,
    AdmissionReleased,
    QuotaDeclared,
    QuotaSpec,
    Release,
    TreeMetered,
)
from projections.quota_trees import Tree, TreeOverlay, charged, prefixes
from projections.quota_trees.shape import BUSINESS
from tests.quota_trees import CPU, Books, observed

ASKED = {"stage": "asked", "verdict": "admitted"}
KEYS = ("limits.cpu", "requests.memory")


@pytest.mark.parametrize(
    ("key", "want"),
    [
        ("limits.cpu", ["limits.cpu"]),
        ("limits.cpu.A4", ["limits.cpu.A4", "limits.cpu"]),
        ("limits.cpu.A4.x", ["limits.cpu.A4.x", "limits.cpu.A4", "limits.cpu"]),
        ("limits.nvidia.com/gpu", ["limits.nvidia.com/gpu"]),
        ("limits.nvidia.com/gpu.A30", ["limits.nvidia.com/gpu.A30", "limits.nvidia.com/gpu"]),
    ],
)
def test_a_key_and_every_shorter_key_that_ends_before_one_of_its_dots(key, want):
    assert want == list(prefixes(key))


def test_a_demand_with_a_type_charges_the_typed_key_and_every_prefix_of_it():
    demand = {"limits.cpu": 4000, "limits.nvidia.com/gpu": 2}

    charge = charged(demand, {"cpu": "A4", "gpu": "A30"})

    assert charge == {
        "limits.cpu": 4000,
        "limits.cpu.A4": 4000,
        "limits.nvidia.com/gpu": 2,
        "limits.nvidia.com/gpu.A30": 2,
    }


def test_a_demand_without_a_type_charges_only_the_plain_key():
    assert {"limits.cpu": 4000} == charged({"limits.cpu": 4000}, {"gpu": "A30"})


def test_zeros_charge_nothing():
    assert {} == charged({"limits.cpu": 0}, {"cpu": "A4"})


def test_a_limit_which_comes_later_knows_what_is_used():
    books = Books()
    books.show_quota(hard={CPU: 10})
    books.ask(demand={CPU: 1, "requests.memory": 7})

    books.show_quota(hard={CPU: 10, "requests.memory": 8})

    assert books.used(key="requests.memory") == 7
    assert books.ask("v", {"requests.memory": 2}).verdict == "refused"


def test_a_missing_entry_of_the_journal_raises_history_diverged():
    tree = Tree("t")
    tree.apply(TreeMetered(number=1), 1, 0)

    with pytest.raises(HistoryDivergedError, match="missing"):
        tree.apply(TreeMetered(number=3), 3, 0)


def test_entries_that_are_known_already_are_ignored():
    books = Books()
    books.show_quota()
    answer = books.ask(demand=3)
    before = portrait(books.tree)

    books.tree.apply(answer, books.tree.sequence, 0)

    assert before == portrait(books.tree)


def test_release_of_an_unknown_uid_is_ignored_and_used_cannot_go_negative():
    """Row D20: delete of an object that was never admitted."""
    books = Books()
    books.show_quota()
    books.ask(demand=3)
    releases = (Release("q", "never-seen", "vanished"), Release("no-quota", "w", "vanished"))

    books.store(AdmissionReleased(number=books.tree.number + 1, releases=releases))

    assert books.used() == 3


def test_the_same_release_twice_gives_back_once():
    books = Books()
    books.show_quota()
    books.ask("v", 2)
    books.ask("w", 3)
    for _ in range(2):
        release = (Release("q", "w", "vanished"),)
        books.store(AdmissionReleased(number=books.tree.number + 1, releases=release))

    assert books.used() == 2


def test_what_a_namespace_holds_is_the_sum_of_its_grants():
    books = Books()
    books.show_quota()
    books.ask("u", 1, namespace="a")
    books.ask("v", 2, namespace="a")
    books.ask("w", 3, namespace="b")
    books.show("u", 0, is_gone=True)

    assert {"a": {CPU: 2}, "b": {CPU: 3}} == books.tree.nodes["q"].by_namespace


def test_a_quota_that_moved_claims_from_its_new_parent_alone():
    """Row C9: a group is re-parented while it admits."""
    books = Books()
    books.show_quota("root", 10)
    books.show_quota("a", 4, parent="root")
    books.show_quota("b", 4, parent="root")
    books.show_quota("q", 2, parent="a")
    books.ask(demand=2)

    books.show_quota("q", 2, parent="b", at=1)

    assert (0, 2) == (books.used("a"), books.used("b"))
    assert books.used("q") == 2


def test_a_quota_answers_for_children_that_were_there_before_it():
    books = Books()
    books.show_quota("child", 4, parent="q")

    books.show_quota("q", 10)

    assert books.used("q") == 4


def test_a_draft_knows_the_children_of_a_quota_that_it_declares():
    books = Books()
    books.show_quota("child", 4, parent="q")
    draft = TreeOverlay(books.tree)

    draft.add(msgspec.structs.replace(observed(books.tree, "q", 10), **ASKED), 0)

    assert draft.used(draft.node("q"), CPU) == 4


def test_a_quota_that_is_gone_holds_nothing_and_claims_nothing():
    books = Books()
    books.show_quota("root", 10)
    books.show_quota("q", 4, parent="root")
    books.ask()

    books.show_quota("q", None, parent="root")

    assert books.used("root") == 0
    assert ({"root"}, {}) == (set(books.tree.nodes), books.tree.holders)


def test_an_adopted_object_keeps_what_it_asked_for_last():
    """What was seen is no ask: the one before it may still be on its way."""
    books = Books()
    books.show_quota()
    asked = books.ask(demand=2, at=1)
    books.show(demand=3, at=2)

    grant = books.tree.nodes["q"].grants["w"]

    assert ({CPU: 3}, {CPU: 2}, asked.number) == (grant.charge, grant.demand, grant.number)


# --- the same tree, however it came about -----------------------------------------------------------


def portrait(tree):
    """Everything that a decision may read of a tree."""
    return {
        name: msgspec.to_builtins(node) | {"limited": node.limited(), "claimed": node.claimed()}
        for name, node in sorted(tree.nodes.items())
    }


NAMES = [f"q{n}" for n in range(40)]


@st.composite
def parents(draw, most=40, depth=6):
    """A random tree: each quota's parent, by name; at most ``depth`` levels."""
    found, levels = {"q0": ""}, {"q0": 1}
    for name in NAMES[1 : draw(st.integers(1, most))]:
        parent = draw(st.sampled_from([n for n in found if levels[n] < depth]))
        found[name], levels[name] = parent, levels[parent] + 1
    return found


amounts = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 5))


@st.composite
def journals(draw):
    """Facts as any process might say them, sensible or not, each with its second."""
    above = draw(parents(most=8))
    facts, names, at = [], st.sampled_from(sorted(above)), 0
    for number in range(1, draw(st.integers(1, 25)) + 1):
        at += draw(st.sampled_from([0, 1, 80]))
        quota, uid = draw(names), draw(st.sampled_from("uvw"))
        what = draw(st.sampled_from(["declare", "decide", "decide", "release"]))
        if what == "declare":
            stage = draw(st.sampled_from(["asked", "observed", "observed"]))
            spec = draw(st.one_of(st.none(), amounts.map(lambda hard: QuotaSpec(hard=hard))))
            parent = draw(st.one_of(st.just(above[quota]), st.just(above[quota]), names))
            fact = QuotaDeclared(
                number=number, quota=quota, uid=draw(st.sampled_from("xy")), kind=BUSINESS,
                parent=parent if parent != quota else "", stage=stage,
                verdict=draw(st.sampled_from(["admitted", "admitted", "refused"])),
                reason="", spec=spec, settles=draw(st.booleans()),
            )  # fmt: skip
        elif what == "decide":
            verdict = draw(st.sampled_from(["admitted", "admitted", "adopted", "refused"]))
            fact = AdmissionDecided(
                number=number, quota=quota, uid=uid, kind="Job", namespace=uid, name=uid,
                verdict=verdict, reason="", demand=draw(amounts), charge=draw(amounts),
            )  # fmt: skip
        else:
            fact = AdmissionReleased(
                number=number, releases=(Release(quota, uid, "shrunk", draw(amounts)),)
            )
        facts.append((fact, at * SECOND_US))
    return facts


@given(journals())
def test_used_is_what_its_workloads_hold_and_its_children_claim_at_every_node(facts):
    """P17: random trees, moves and deletes mixed in, at every read."""
    tree = Tree("t")
    for fact, time_us in facts:
        tree.apply(fact, fact.number, time_us)

        for node in tree.nodes.values():
            for key in KEYS:
                held = sum(grant.charge.get(key, 0) for grant in node.grants.values())
                below = [
                    n.claimed().get(key, 0) for n in tree.nodes.values() if n.parent == node.name
                ]
                assert (held, held + sum(below)) == (node.self_used.get(key, 0), node.used(key))
                assert node.used(key) >= 0
        holders = {(uid, name) for name, node in tree.nodes.items() for uid in node.grants}
        assert holders == {(uid, name) for uid, names in tree.holders.items() for name in names}


@given(parents(), st.data())
def test_used_is_exact_at_every_node_of_a_large_tree(above, data):
    """P17: trees of up to 40 nodes and 6 levels, built and taken apart in random order."""
    books = Books()
    limits = {name: data.draw(st.integers(0, 9)) for name in above}
    for name in data.draw(st.permutations(sorted(above))):
        books.show_quota(name, limits[name], parent=above[name])
    gone = data.draw(st.sets(st.sampled_from(sorted(above))))
    for name in sorted(gone):
        books.show_quota(name, None, parent=above[name])

    want = {
        name: sum(limits[n] for n in above if above[n] == name and n not in gone)
        for name in above
        if name not in gone
    }
    assert want == {name: books.used(name) for name in books.tree.nodes}


answers = journals().map(
    lambda facts: [
        (fact, time_us)
        for fact, time_us in facts
        if isinstance(fact, AdmissionDecided) or (isinstance(fact, QuotaDeclared) and fact.spec)
    ]
)


@given(answers, answers)
def test_a_draft_reads_as_the_tree_does_after_it_is_stored(stored, drafted):
    """Answers count at once."""
    tree = Tree("t")
    for fact, time_us in stored:
        tree.apply(msgspec.structs.replace(fact, number=tree.number + 1), tree.number + 1, time_us)
    draft = TreeOverlay(tree)
    for fact, time_us in drafted:
        if isinstance(fact, QuotaDeclared):
            known = draft.node(fact.quota)
            # A proposal with another parent is refused, so it never comes here admitted.
            parent = known.parent if known else fact.parent
            fact = msgspec.structs.replace(fact, stage="asked", parent=parent)
        elif draft.node(fact.quota) is None:
            fact = msgspec.structs.replace(fact, verdict="refused")
        draft.add(msgspec.structs.replace(fact, number=draft.number), time_us)
    before = readings(draft)

    draft.store(range(1000, 1000 + len(draft.facts)))

    assert before == readings(TreeOverlay(tree))


def readings(draft):
    """What a decision reads of a draft, at every quota and object."""
    found = {}
    for name in NAMES[:8]:
        node = draft.node(name)
        if node is None:
            continue
        found[name] = (
            (node.uid, node.parent, node.spec, node.asked, node.asked_us, node.is_alone),
            (
                node.limited(),
                node.claimed(),
                {n: c for n, c in node.children.items() if any(c.values())},
            ),
            [draft.used(node, key) for key in KEYS],
            [draft.own(node, uid, key) for uid in "uvw" for key in KEYS],
            [draft.grant(name, uid) for uid in "uvw"],
            draft.holds(node),
        )
    return found


def test_a_review_of_the_same_change_again_takes_no_place_among_the_changes():
    """As in the second review of a conflict. Either may still be on its way when it is seen."""
    books = Books()
    books.show_quota()
    books.propose("q", 12, operation="UPDATE", at=1)
    books.propose("q", 12, operation="UPDATE", at=2)

    node = books.tree.nodes["q"]

    assert (1, False) == (len(node.asked), node.is_alone)


def test_what_is_held_when_the_first_quota_becomes_elastic_is_divided_with_it():
    books = Books()
    books.show_quota("q", {"requests.cpu": 100})
    books.ask(demand={"requests.cpu": 30})
    books.store(TreeMetered(number=books.tree.number + 1, total={"cpu": 100}))
    assert not books.tree.elastic.is_used

    books.show_quota("q", {"requests.cpu": 100}, at=200, max={"cpu": 80}, weight={"cpu": 1})
    assert books.tree.elastic.runtime("q") == {"cpu": 30}
    books.show("w", is_gone=True, at=300)
    assert books.tree.elastic.runtime("q") == {"cpu": 0}
