"""Whose quota what a pod runs is charged to, where users write the controllers that it names."""

import itertools

import pytest

from bus.events.admissions import AdmissionDecided, Left
from bus.kube.kinds import QUOTA_LABELS
from projections.pod_runs import held_segments, pod_runs
from projections.quota_trees.own import own_charges
from projections.quota_trees.shape import MOST_OWNERS
from tests import factories as f
from tests.projections.ledger import folded, rows

QUOTA = QUOTA_LABELS[0]
MINE, THEIRS = {QUOTA: "mine"}, {QUOTA: "theirs"}


def decided(uid, owner, number=1, *, at=0, kind="Job", verdict="admitted", left=None):
    body = AdmissionDecided(
        number=number, quota="mine", uid=uid, kind=kind, namespace="ns", name=uid, verdict=verdict,
        reason="fits", demand={"limits.cpu": 1}, charge={"limits.cpu": 1}, owner=owner, left=left,
    )  # fmt: skip
    return f.said(body, key="biz/mine", id=f"decided/{number}", at=at)


def charged(events, **options):
    """(quota, workload) of every segment after events in this order."""
    store = folded(f.numbered(events), **options)
    return [(row["quota"], row["workload"]) for row in rows(store, held_segments)]


def below(kind="Job", **fields):
    """A pod below ``job``, which names ``cron`` as its controller, and both of these."""
    return [
        f.workload_observed("cron", kind="CronJob", labels=THEIRS),
        f.workload_observed("job", kind=kind, labels=MINE, owner=f.owner("cron", "CronJob")),
        f.pod_observed(owner=f.owner("job", kind), **fields),
    ]


def test_what_no_entry_speaks_of_belongs_to_the_top_of_its_controllers():
    assert charged(below()) == [("theirs", "CronJob/cron")]


@pytest.mark.parametrize("batch", [1, 1000])
def test_a_made_up_controller_pays_for_nothing_that_was_admitted_in_its_own_right(batch):
    """In whatever order it is heard of. The workload's name stays the one that its controllers say."""
    for order in itertools.permutations([*below(), decided("job", "cron")]):
        found = charged(list(order), batch=batch, restart_every=1, ended_kept=0)
        assert found == [("mine", "CronJob/cron")]


def test_a_pod_that_was_admitted_in_its_own_right_is_charged_to_its_own_quota():
    pod = f.pod_observed(labels=MINE, owner=f.owner("web"))
    owner = f.workload_observed("web", labels=THEIRS)

    for order in itertools.permutations([pod, owner, decided("p", "web", kind="Pod")]):
        assert charged(list(order)) == [("mine", "ReplicaSet/web")]


@pytest.mark.parametrize(
    "entry",
    [
        decided("job", "cron", verdict="refused"),
        decided("job", "cron", verdict="adopted"),
        decided("job", "cron", left=Left("cron")),
        decided("job", "another"),
    ],
    ids=["refused", "adopted", "let go by its owner", "of another controller"],
)
def test_other_entries_leave_a_workload_to_its_controller(entry):
    assert charged([*below(), entry]) == [("theirs", "CronJob/cron")]


def test_what_an_operator_makes_belongs_to_its_kind_whoever_wrote_it():
    """Operators run under any account, so admission takes these for the owner's once that is seen."""
    events = [
        f.workload_observed("train", kind="PyTorchJob", labels=THEIRS),
        f.pod_observed(owner=f.owner("train", "PyTorchJob")),
        decided("p", "train", kind="Pod"),
    ]

    assert charged(events) == [("theirs", "PyTorchJob/train")]


@pytest.mark.parametrize("wrong", [{"namespace": "other"}, {"kind": "Deployment"}], ids=str)
def test_a_controller_of_another_namespace_or_kind_is_none(wrong):
    """As in admission. One that was not seen yet is named by the reference alone, and pays for nothing."""
    pod = f.pod_observed(labels=MINE, owner=f.owner("web"))

    assert charged([pod]) == [("mine", "ReplicaSet/web")]
    for labels in (THEIRS, {}):
        seen = f.workload_observed("web", labels=labels, **wrong)
        for order in ([pod, seen], [seen, pod]):
            assert charged(order) == [("mine", "Pod/p")]


def test_a_deadline_is_that_of_who_is_charged():
    """One of a made-up controller would make what may still be spent too small."""
    events = below()
    events[0] = f.workload_observed("cron", kind="CronJob", labels=THEIRS, demand={}, deadline_s=10)
    events[1] = f.workload_observed(
        "job", kind="Job", labels=MINE, owner=f.owner("cron", "CronJob"), demand={}, deadline_s=500
    )

    def deadline(events):
        store = folded(f.numbered(events))
        (row,) = rows(store, pod_runs)
        return row["deadline_s"] - row["start_s"]

    assert (deadline(events), deadline([*events, decided("job", "cron")])) == (10, 500)


def test_of_very_many_controllers_any_is_made_up_in_every_order():
    entries = [decided("job", f"cron-{n:02}", n) for n in range(1, MOST_OWNERS + 3)]
    for events in (entries, entries[::-1], [*entries[4:], *entries]):
        (row,) = rows(folded(f.numbered(events)), own_charges)
        assert row["owners"] == '["*"]'
    assert charged([*entries, *below()]) == [("mine", "CronJob/cron")]
