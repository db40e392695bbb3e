"""Statuses of reservations are written as the scheduler knows them, once, and never over what is newer."""

import asyncio
from functools import partial

import pytest

from bus.errors import ClusterUnavailableError, ConflictError, NotFoundError, PermissionDeniedError
from bus.events.pods import ReservationCondition
from bus.waiting import Moves
from reactors.scheduling.effectors.binder import Binder
from reactors.scheduling.effectors.reservations import ReservationStatuses
from reactors.scheduling.effects import PlacementSource, settle
from reactors.scheduling.framework.bind import RESERVATIONS, Placement
from reactors.scheduling.framework.reserve import reserve
from tests import factories as f
from tests.reactors.scheduling.reserving import reserving

AMOUNTS = {"cpu": 4000, "nvidia.com/gpu": 2}


class Server:
    """One reservation as the API server has it; errors come first."""

    def __init__(self, **status):
        metadata = {"name": "web", "uid": "web", "resourceVersion": "7"}
        self.found = {"metadata": metadata, "spec": {}, "status": status}
        self.errors, self.bodies, self.deleted, self.nodes, self.bound = [], [], [], {"n0"}, []

    async def get(self, path):
        if "/nodes/" in path:
            if path.rpartition("/")[2] not in self.nodes:
                raise NotFoundError(message="no such node")
            return {}
        assert path == f"{RESERVATIONS}/web"
        return self.found

    async def merge(self, path, body):
        assert path == f"{RESERVATIONS}/web/status"
        if self.errors:
            raise self.errors.pop(0)
        if body["metadata"]["resourceVersion"] != self.found["metadata"]["resourceVersion"]:
            raise ConflictError(message="it is another")
        self.bodies.append(body)
        self.found["status"].update(body["status"])
        self.found["metadata"]["resourceVersion"] = str(len(self.bodies) + 7)
        return self.found

    async def delete(self, path, *, uid):
        self.deleted.append((path, uid))
        return {}

    async def bind(self, namespace, pod, *, uid, node, annotations):
        self.bound.append((pod, node, annotations))


def placement(**fields):
    said = {"namespace": "", "name": "web", "uid": "web", "node": "n0", "decision": "d"} | fields
    return Placement(**said, is_reservation=True, at_us=10**15)


async def test_a_reservation_gets_its_node_in_one_write():
    server = Server()

    assert (await reserve(server, placement(), AMOUNTS)).outcome == "bound"
    status = server.bodies[0]["status"]
    assert (status["phase"], status["nodeName"]) == ("Available", "n0")
    assert status["allocatable"] == {"cpu": "4", "nvidia.com/gpu": "2"}
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [
        ("Scheduled", "True"),
        ("Ready", "True"),
    ]
    # Whoever asks again finds it done.
    assert (await reserve(server, placement(), AMOUNTS)).outcome == "bound"
    assert (await reserve(server, placement(node="n1"), AMOUNTS)).outcome == "elsewhere"
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (lambda s: s.found["metadata"].update(uid="other"), "gone"),
        (lambda s: s.found["metadata"].update(deletionTimestamp="now"), "gone"),
        (lambda s: s.found["status"].update(phase="Failed"), "gone"),
        (lambda s: s.errors.append(ConflictError(message="newer")), "later"),
        (lambda s: s.errors.append(PermissionDeniedError(message="no right")), "denied"),
        (lambda s: s.errors.append(ClusterUnavailableError(reason="away")), "later"),
        (lambda s: s.found.update(status=["a", "list"]), "later"),
        (lambda s: s.found.pop("metadata"), "later"),
    ],
)
async def test_a_reservation_that_is_another_or_an_answer_that_is_none_gets_no_node(
    change, outcome
):
    server = Server()
    change(server)

    assert (await reserve(server, placement(), AMOUNTS)).outcome == outcome
    assert server.bodies == []


def statuses(at):
    return {one.row.name: one for one in PlacementSource(at.runner.replica, Moves()).statuses()}


async def test_what_bound_pods_have_is_written_and_what_was_written_is_not():
    at = await reserving()
    await at.say(at.reservation("web", 6, "n0", allocated={"cpu": "0"}), at.owner("a", "web", 4))
    # Who is not bound yet may still give back.
    assert statuses(at) == {}
    await at.say(at.seen("a", "web", 4))
    found = statuses(at)["web"].status
    assert (found.allocated, found.owners, found.phase) == ({"cpu": 4000}, ("a",), "Available")

    await at.say(at.again("web", allocated={"cpu": "4"}, current_owners=("a",)))
    assert statuses(at) == {}
    await at.say(at.gone("a"))
    assert statuses(at)["web"].status.owners == ()


async def test_what_is_used_once_expired_or_lost_is_written():
    at = await reserving(2)
    await at.say(at.reservation("once", 2, "n0", allocate_once=True), at.owner("a", "once", 1))
    await at.say(at.seen("a", "once", 1), at.reservation("short", 1, "n0", ttl="20s"))
    await at.say(at.reservation("lost", 1, "n1"), at.node_gone("n1"), at.reservation("never", 100))
    await at.tick(30)
    found = statuses(at)

    assert {name: one.status.phase for name, one in found.items()} == {
        "once": "Succeeded", "short": "Failed", "lost": "Failed", "never": "Pending",
    }  # fmt: skip
    assert [one.lost for one in found.values()] == ["", "", "n1", ""]
    assert found["never"].status.conditions[0].message.startswith("0/1 nodes are available")
    assert [one.uid for one in found["once"].owners] == ["a"]


async def test_nothing_is_written_in_shadow_or_while_all_is_paused():
    at = await reserving(mode="shadow")
    await at.say(at.reservation("short", 1, "n0", ttl="20s"))
    await at.tick(30)

    assert statuses(at) == {}


async def test_a_node_that_the_api_server_has_is_not_lost():
    at = await reserving()
    await at.say(at.reservation("web", 2, "n7"))
    server = Server()
    server.nodes.add("n7")
    server.found["metadata"]["resourceVersion"] = at.told["web"].resource_version
    await ReservationStatuses(server, at.clock).write(statuses(at).values())
    assert server.bodies == []

    server.nodes.clear()
    await ReservationStatuses(server, at.clock).write(statuses(at).values())
    assert server.bodies[0]["status"]["phase"] == "Failed"


async def test_a_reservation_that_is_over_for_a_day_is_deleted():
    at = await reserving()
    condition = ReservationCondition("Ready", False, "Expired", "", f.stamp(at.at()))
    await at.say(at.reservation("old", phase="Failed", conditions=(condition,)))
    await at.tick(3600)
    assert statuses(at) == {}
    await at.tick(24 * 3600)
    # The clock jumped.
    assert statuses(at) == {}
    for _ in range(11):
        await at.tick(60)
    server = Server()
    await ReservationStatuses(server, at.clock).write(statuses(at).values())

    assert server.deleted == [(f"{RESERVATIONS}/old", "old")]


@pytest.mark.simulated
async def test_the_binder_gives_reservations_their_nodes_and_names_them_on_pods():
    at = await reserving()
    await at.say(at.reservation("web", 4))
    server = Server()
    say = partial(settle, at.transport, at.clock, at.cluster)
    binder = Binder(server, PlacementSource(at.runner.replica, Moves()), say, lambda one: None)
    running = asyncio.create_task(binder.run())
    await asyncio.sleep(2)
    assert server.found["status"]["nodeName"] == "n0"

    await at.say(
        at.again("web", node="n0", phase="Available", allocatable={"cpu": "4"}),
        at.owner("a", "web", 2),
    )
    await asyncio.sleep(3)
    running.cancel()

    (pod, node, annotations) = server.bound[0]
    assert (pod, node) == ("a", "n0")
    assert (
        annotations["scheduling.koordinator.sh/reservation-allocated"]
        == '{"name":"web","uid":"web"}'
    )


async def test_what_a_fact_cannot_carry_is_not_written_for_ever():
    """More owners than a fact names, and a message longer than it has."""
    at = await reserving()
    many = [f"p{number}" for number in range(40)]
    await at.say(
        at.node("n0", allocatable={"cpu": "90", "pods": "200"}), at.reservation("web", 50, "n0")
    )
    await at.say(*(at.owner(uid, "web", 1, node="n0") for uid in many))
    await at.say(at.again("web", current_owners=tuple(many)), at.reservation("x" * 90, 1000))
    assert len(at.reservations.status("web").owners) == 40
    cut = {"current_owners": tuple(many[:32]), "allocated": {"cpu": "40"}}
    await at.say(at.again("web", **cut))
    assert "web" not in statuses(at)

    long = statuses(at)["x" * 90].status.conditions
    assert len(long[0].message) <= 256


async def test_a_node_that_somebody_made_up_is_asked_for_as_one_name():
    at = await reserving()
    await at.say(at.reservation("web", 2, "../../secrets/x"))
    server = Server()
    asked, get = [], server.get
    server.get = lambda path: asked.append(path) or get(path)
    await ReservationStatuses(server, at.clock).write(statuses(at).values())

    assert asked == ["/api/v1/nodes/..%2F..%2Fsecrets%2Fx"]


async def test_a_clock_that_jumps_ends_no_reservation():
    """Its time is over for one tick only; a day is over for what the policy deletes."""
    at = await reserving(2)
    over = ReservationCondition("Ready", False, "Expired", "", f.stamp(at.at()))
    await at.say(
        at.reservation("web", 6, "n0", ttl="48h"), at.reservation("late", 50, ttl="48h"),
        at.reservation("used", 2, "n1", ttl="48h", allocate_once=True), at.owner("a", "web", 4), at.owner("b", "used", 1),
        at.reservation("old", phase="Failed", conditions=(over,)),
    )  # fmt: skip
    await at.say(at.seen("a", "web", 4), at.seen("b", "used", 1))
    await at.say(at.again("web", allocated={"cpu": "4"}, current_owners=("a",)), at.gone("b"))
    await at.tick()
    before = {uid: at.reservations.status(uid) for uid in ("web", "late", "used")}
    three_days = 3 * 24 * 3600

    await at.tick(three_days)
    assert at.reservations.status("web").phase == "Failed"
    assert [name for name, one in statuses(at).items() if one.is_destructive] == []
    await at.tick(10 - three_days)
    assert {uid: at.reservations.status(uid) for uid in before} == before
    assert at.state.scheduler.queues["bursar"].get("late") is not None
    assert [name for name, one in statuses(at).items() if one.is_destructive] == []
    for _ in range(11):
        await at.tick(60)
    assert {name: one.status.phase for name, one in statuses(at).items()} == {
        "used": "Succeeded", "late": "Pending",
    }  # fmt: skip


async def test_amounts_and_conditions_of_others_are_written_over_once():
    """As a merge patch leaves names that it does not tell, and a fact carries eight conditions."""
    at = await reserving()
    await at.say(at.reservation("web", 6, "n0", allocated={"cpu": "0", "foreign/x": "5"}))
    assert statuses(at) == {}
    await at.say(at.owner("a", "web", 4), at.owner("b", "web", 4))
    await at.say(at.seen("a", "web", 4))
    server = Server()
    server.found["metadata"]["resourceVersion"] = at.told["web"].resource_version
    await ReservationStatuses(server, at.clock).write([statuses(at)["web"]])
    assert server.bodies[0]["status"]["allocated"] == {"cpu": "4", "foreign/x": None}

    others = tuple(ReservationCondition(f"x{number}", True, "") for number in range(8))
    await at.say(at.reservation("big", 100, conditions=others, phase="Pending"))
    server = Server()
    server.found["metadata"]["resourceVersion"] = at.told["big"].resource_version
    server.merge = lambda path, body: asyncio.sleep(0, server.bodies.append(body))
    await ReservationStatuses(server, at.clock).write([statuses(at)["big"]])
    told = server.bodies[0]["status"]["conditions"][:8]
    read = tuple(
        ReservationCondition(one["type"], one["status"] == "True", one["reason"], one["message"])
        for one in told
    )
    await at.say(at.again("big", conditions=read))
    assert "big" not in statuses(at)
