"""Rows that follow from several others: late facts, lists, restarts, poison. Each case is a history and what it must say."""

import json
import time

import msgspec
import pytest

from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.tables import parked
from projections.lists.rows import pod_lists
from projections.pod_runs import held_segments, pod_runs
from projections.usage import usage_hours
from tests import factories as f
from tests.projections.ledger import folded, memory_store, rows, tables


def pods(events, **options):
    """uid → (start, end, unknown, flags) in seconds after the start."""
    found = rows(folded(f.numbered(events), **options), pod_runs)
    return {
        r["uid"]: (_s(r["start_s"]), _s(r["end_s"]), r["unknown_s"], json.loads(r["flags"]))
        for r in found
    }


def _s(second):
    return None if second is None else second - f.START_S


def teams(events, **options):
    """(team, from, to) of every segment."""
    found = rows(folded(f.numbered(events), **options), held_segments)
    return [(r["team"], _s(r["start_s"]), _s(r["end_s"])) for r in found]


def same_in_any_order(events):
    """Whether two orders of arrival give the same rows."""
    laid = f.numbered(events)
    back = f.numbered(laid[::-1])
    return tables(laid, without=("sequence",)) == tables(back, without=("sequence",))


# --- found by the properties, kept as the smallest history that showed it ---------------------------


def test_a_newer_version_that_was_seen_earlier_moves_the_cut_before_it():
    history = [
        f.pod_observed(version=1, at=0, team="a"),
        f.pod_observed(version=2, at=20, team="b"),
        f.pod_observed(version=3, at=15, team="b"),
    ]

    assert teams(history) == [("a", 0, 15), ("b", 15, None)]


def test_a_pod_that_changed_its_owner_and_lost_it_keeps_the_last_one_in_any_order():
    history = [
        f.pod_observed(version=3, at=3),
        f.pod_observed(version=1, at=1, owner=f.owner("one")),
        f.pod_observed(version=2, at=2, owner=f.owner("two")),
    ]
    workload = {row["workload"] for row in tables(f.numbered(history))["pod_runs"]}

    assert ({"ReplicaSet/two"}, True) == (workload, same_in_any_order(history))


def test_one_version_seen_by_two_watchers_is_the_same_row_whoever_is_first():
    history = [f.pod_observed(version=5, at=1), f.pod_observed(version=5, at=1.3)]

    assert same_in_any_order(history)


def test_unordered_versions_of_one_moment_are_the_same_row_in_any_order():
    history = [
        f.pod_observed(version="x", at=1, phase="Pending", team="a"),
        f.pod_observed(version="y", at=1, phase="Running", team="b"),
    ]

    assert same_in_any_order(history)


def test_time_that_is_charged_is_not_unknown_as_well():
    history = [
        f.pod_observed(version=1, at=0, created=0, scheduled=5),
        f.pods_listed([], version=2, at=9),
    ]

    assert pods(history) == {"p": (5, 5, 4, ["clamped", "vanished"])}


def test_a_list_asked_for_before_an_observation_but_newer_than_it_is_heard():
    history = [
        f.pod_observed(version=100, at=5),
        f.pods_listed(["p"], version=90, at=4.95),
        f.pods_listed([], version=105, at=4.9),
        f.pods_listed([], version=95, at=4.97),
    ]

    assert (pods(history), True) == ({"p": (0, 4, 0, ["vanished"])}, same_in_any_order(history))


def test_a_list_that_is_said_again_after_memory_let_go_of_it_changes_nothing():
    lists = [f.pods_listed(["p"], version=n, at=n) for n in range(1, 5)]
    history = f.numbered([f.pod_observed(at=0), *lists, lists[0]])

    assert tables(history, batch=1000) == tables(history, batch=1, parts_kept=1)


def test_a_late_list_of_a_cluster_whose_lists_are_not_in_memory_is_known_to_be_late():
    history = f.numbered(
        [
            f.pod_observed("p", at=0),
            f.pods_listed([], at=50),
            f.pod_observed("q", at=60, cluster="other"),
            f.pods_listed(["q"], at=70, cluster="other"),
            f.pods_listed([], at=40),
        ]
    )

    want = tables(history, batch=1000)

    assert want == tables(history, batch=1, restart_every=1, parts_kept=1)
    assert {r["unknown_s"] for r in want["pod_runs"] if r["uid"] == "p"} == {40}


def test_a_late_list_that_has_a_pod_does_not_hide_a_stored_one_that_is_newer():
    history = f.numbered(
        [
            f.pods_listed([], at=9000),
            f.pod_observed(version="x", at=4),
            f.pods_listed(["p"], at=40),
            f.pods_listed(["p"], at=37),
        ]
    )

    assert tables(history) == tables(history, batch=1, restart_every=1, parts_kept=1)


@pytest.mark.parametrize("memory", [{}, {"parts_kept": 1}], ids=["in memory", "stored"])
@pytest.mark.parametrize("batch", [1, 1000])
def test_of_two_lists_of_one_moment_the_later_version_counts_whichever_came_first(memory, batch):
    pod, later = f.pod_observed(version=1, at=0), f.pods_listed(["p"], version=9, at=50)
    one, other = f.pods_listed([], version=3, at=5), f.pods_listed(["p"], version=4, at=5)
    orders = ([pod, one, later, other], [pod, other, later, one], [other, one, pod, later])

    assert [{"p": (0, None, 0, [])}] * 3 == [pods(o, batch=batch, **memory) for o in orders]
    assert same_in_any_order(orders[0])


@pytest.mark.parametrize(
    "stamps",
    [
        {"created": "0001-01-01T00:00:00Z"},
        {"scheduled": "9999-12-31T23:59:59Z"},
        {"deletion": "9999-12-31T23:59:59Z", "grace_seconds": 0},
        {"phase": "Failed", "finished": ("0001-01-01T00:00:00Z",)},
    ],
    ids=lambda stamps: next(iter(stamps)),
)
def test_a_stamp_that_cannot_be_true_is_absent_and_flagged_and_costs_no_time(stamps):
    began = time.monotonic()
    store = folded(f.numbered([f.pod_observed(at=10, **stamps), f.pod_vanished(at=20)]))
    flags = json.loads(rows(store, pod_runs)[0]["flags"])

    assert "clamped" in flags
    assert len(rows(store, usage_hours)) <= 1
    assert time.monotonic() - began < 1


def test_e6_an_older_version_that_comes_late_changes_nothing_that_a_newer_one_said():
    newer = f.pod_observed(version=10, at=20, team="b", labels={"app": "new"}, owner=f.owner("o2"))
    older = f.pod_observed(
        version=9, at=10, team="a", labels={"app": "old"}, owner=f.owner("o1"), phase="Pending"
    )
    history = [newer, older]
    (run,) = rows(folded(f.numbered(history)), pod_runs)

    assert ("Running", '{"app":"new"}') == (run["phase"], run["labels"])
    assert ("ReplicaSet/o2", "b") == (run["workload"], run["team"])
    assert [("a", 0, 20), ("b", 20, None)] == teams(history)
    assert same_in_any_order(history)


def test_e6_an_older_version_that_comes_after_the_delete_opens_nothing():
    history = [f.pod_vanished(version=9, at=50, deletion=44), f.pod_observed(version=8, at=60)]

    assert {"p": (0, 44, 0, [])} == pods(history)
    assert same_in_any_order(history)


def test_e10_an_observation_stamped_years_ago_is_ordered_by_its_version_and_charges_no_time_before():
    history = f.numbered(
        [
            f.pod_observed(version=1, at=10, team="a"),
            f.pod_observed(version=2, at=-3 * 365 * 86_400, team="b"),
            f.pod_observed(version=3, at=20, team="c"),
        ]
    )
    store = folded(history)

    assert [("b", 0, 20), ("c", 20, None)] == teams(history)
    assert store.checkpoint(MODEL.version).observed_us == f.us(20)
    assert same_in_any_order(history)


def test_the_first_value_ever_seen_holds_before_although_it_changed_in_the_same_second():
    history = [
        f.pod_observed(at=0),
        f.namespace_observed(version=1, at=5.1, team="a"),
        f.namespace_observed(version=2, at=5.9, team="b"),
    ]

    assert teams(history) == [("a", 0, 5), ("b", 5, None)]


def test_a_pod_first_seen_late_and_changed_in_that_second_had_its_first_value_before():
    history = [
        f.pod_observed(version=1, at=5.1, team="a"),
        f.pod_observed(version=2, at=5.5, team="x"),
        f.pod_observed(version=3, at=5.9, team="b"),
    ]

    assert teams(history) == [("a", 0, 5), ("b", 5, None)]


# --- poison ---------------------------------------------------------------------------------------


def test_poison_is_parked_and_changes_no_row_and_the_rest_goes_on():
    good = [f.pod_observed(at=0), f.pod_vanished(at=9, deletion=9)]
    poison = [
        msgspec.structs.replace(good[0], id="1", body=b"{"),
        msgspec.structs.replace(good[0], id="2", type="pod.invented"),
        msgspec.structs.replace(good[0], id="3", version=99),
        msgspec.structs.replace(good[0], id="4", defect="no headers"),
        f.pod_observed("nul", at=1, labels={"app": "a\0b"}),
    ]
    store = folded(f.numbered([good[0], *poison, good[1]]))
    told = {table.name: len(rows(store, table)) for table in MODEL.tables}

    assert [2, 3, 4, 5, 6] == [row["sequence"] for row in rows(store, parked)]
    assert {
        "pod_runs": 1,
        "held_segments": 1,
        "usage_hours": 1,
        "usage_days": 1,
        "report_days": 1,
        "report_days_by_model": 1,
        "report_days_by_node": 1,
        "report_days_by_team": 1,
        "report_slots": 1,
        "evidence": 1,
    } == {name: count for name, count in told.items() if count}


def test_a_text_that_only_looks_like_nul_is_not_parked():
    store = folded(f.numbered([f.pod_observed(at=0, labels={"app": "a\\u0000"})]))

    assert ([], 1) == (rows(store, parked), len(rows(store, pod_runs)))


def test_what_lists_said_is_written_once():
    store = memory_store()
    folder = Folder(MODEL, store)
    folder.open()
    checkpoint, written = store.checkpoint(MODEL.version), []
    for event in f.numbered([f.pods_listed(["p"], version=n, at=n) for n in range(1, 7)]):
        changes = folder.fold([event])
        written.append(len(changes.upserts[pod_lists]))
        checkpoint = store.commit([event], changes, checkpoint)
        folder.settle()

    assert written == [1] * 6
