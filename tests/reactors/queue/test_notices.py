"""A workload that waits says so: as a warning when it is created, and as an Event beside it."""

import pytest

from bus.events.quotas import Serves
from bus.kube import kinds
from projections.quota_trees import Tree
from reactors.effectors.events import Recorder
from reactors.queue import releasing
from reactors.queue.hold import held
from reactors.queue.notices import notice
from tests.reactors.effectors.written import Written
from tests.reactors.engine.restoring import readers_of
from tests.reactors.queue.jobs import LABEL, Jobs, manifest, patched
from tests.reactors.queue.settling import until
from tests.reactors.queue.waiting import SPECS, WAITING

pytestmark = pytest.mark.simulated
SHORT = "it waits for room, as limits.cpu asks for 2 more, 3 of 4 are used, 1 too much; this namespace holds 3, others 0"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(releasing, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(releasing, "APART_SECONDS", 0.0)


@pytest.fixture
async def cluster():
    async with Jobs() as running:
        await running.see_team(4)
        yield running


def text(place, waits):
    return f"queued by quota 'team', place {place}: {waits}. See: bursar queue show"


async def test_what_is_held_is_told_its_place_and_what_it_waits_for(cluster):
    assert (text(1, "it starts in its turn"),) == (await cluster.create("a", 3)).warnings
    await until(lambda: cluster.running() == ["a"])
    for place, name in enumerate("bc", 1):
        assert (text(place, SHORT),) == (await cluster.create(name, 2)).warnings
        await cluster.settled()

    await cluster.see_class("high", 1000)
    assert (text(1, SHORT),) == (await cluster.create("d", 2, priority="high")).warnings


async def test_places_follow_starts_ends_and_orders_also_from_a_snapshot(cluster):
    await cluster.see_class("low", -1)
    for name in "abcde":
        await cluster.create(name, 3)
        await cluster.settled()
    await until(lambda: cluster.running() == ["a"])
    assert (await cluster.create("f", 3)).warnings[0].startswith("queued by quota 'team', place 5:")
    await cluster.settled()

    await cluster.delete("b")
    await cluster.order(cluster.uid("c"), "hold")
    await cluster.order(cluster.uid("d"), "move", -1)
    assert (await cluster.create("g", 3)).warnings[0].startswith("queued by quota 'team', place 3:")
    await cluster.settled()
    history = cluster.transport.events
    for cuts in ({}, {len(history) // 2}, {len(history) - 1}):
        lines = readers_of(history, cuts, cluster="c1").lines
        where = next(where for _, where in lines.held())
        assert (3, 4) == (lines.ahead(where, ""), lines.ahead(where, "low"))


async def test_an_update_of_what_waits_is_not_told_again(cluster):
    await cluster.create("a", 3)
    await until(lambda: cluster.running() == ["a"])
    await cluster.create("b", 2)
    before = cluster.objects["b"]
    after = {**before, "spec": {**before["spec"], "parallelism": 2}}
    answer = await cluster.admission.handler(cluster._review(after, before, "UPDATE"))

    assert (True, "held", ()) == (answer.allowed, answer.reason, answer.warnings)


async def test_what_no_queue_holds_is_told_nothing(cluster):
    await cluster.see_team(9, name="plain", hold=False)
    for fields in ({"quota": "plain"}, {"quota": ""}, {"suspend": True}):
        assert () == (await cluster.create(f"j{len(fields)}", 1, **fields)).warnings


async def test_what_may_never_start_is_told_why(cluster):
    await cluster.see_team(4, name="theirs", serves=Serves(("other",)))
    object = patched(
        manifest("a", 1, quota="theirs"),
        held(kinds.governed("batch", "Job"), manifest("a", 1), "theirs"),
    )
    object["metadata"]["uid"] = "u"
    answer = await cluster.admission.handler(cluster._review(object, None, "CREATE"))

    assert answer.warnings[0].startswith(
        "queued by quota 'theirs': workloads of namespace 'ns' may not use"
    )


@pytest.mark.parametrize("kind", WAITING, ids=lambda kind: kind.kind)
async def test_every_kind_that_waits_is_told(cluster, kind):
    object = {
        "metadata": {"name": "w", "uid": "u", "namespace": "ns", "labels": {LABEL: "team"}},
        "spec": SPECS[kind.kind],
    }
    answer = await cluster.review(
        patched(object, held(kind, object, "team")),
        group=kind.group, version=kind.versions[0], resource=kind.resource, kind=kind.kind,
    )  # fmt: skip

    assert answer.warnings[0].startswith("queued by quota 'team'")


async def test_an_event_says_once_that_a_job_waits(cluster):
    admission, written = cluster.admission, Written()

    def waiting(uid):
        return notice(
            admission.releasing.lines, admission.view, admission.journals, uid, cluster.clock.us
        )

    recorder = Recorder(written, cluster.clock, Tree, instance="host", waiting=waiting)
    admission.journals.listen(recorder.apply)
    await cluster.create("a", 3)
    await until(lambda: cluster.running() == ["a"])
    await cluster.create("b", 2)
    await cluster.settled()
    await recorder.work()
    bodies = {body["regarding"]["name"]: body for _, _, body in written.said}
    assert ("Queued", "Normal", text(1, SHORT)) == tuple(
        bodies["b"][key] for key in ("reason", "type", "note")
    )
    assert (cluster.uid("b"), "batch/v1") == (
        bodies["b"]["regarding"]["uid"],
        bodies["b"]["regarding"]["apiVersion"],
    )

    await cluster._store(cluster.objects["b"])
    await cluster.settled()
    await recorder.work()
    assert ["a", "b"] == sorted(body["regarding"]["name"] for _, _, body in written.said)


async def test_very_many_that_wait_keep_no_refusal_from_its_event(cluster):
    admission, written = cluster.admission, Written()

    def waiting(uid):
        return notice(
            admission.releasing.lines, admission.view, admission.journals, uid, cluster.clock.us
        )

    recorder = Recorder(
        written, cluster.clock, admission.journals.tree, instance="host", waiting=waiting
    )
    admission.journals.listen(recorder.apply)
    await cluster.see_team(1, name="plain", hold=False)
    for number in range(30):
        await cluster.create(f"j{number}", 4)
    await cluster.create("refused", 2, quota="plain")
    await cluster.settled()
    await recorder.work()

    reasons = [body["reason"] for _, _, body in written.said]
    assert (10, 1) == (reasons.count("Queued"), reasons.count("OverQuota"))
