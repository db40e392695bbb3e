"""Every state that admission can reach, with a small cluster around it.

There is no second model of the rules: asks, quota changes and evidence are judged by the product's
own ``decide``, ``declare``, ``shows``, ``settle`` and ``declared``, on its own ``TreeOverlay`` and
``Tree``. What is modelled here is the world: requests that land within the API server's deadline or
never, a watch that is late, complete lists, deletes, a clock, and processes that decide on an old
view. Times are whole seconds. What a watch says is stamped up to :data:`LAG` later than it was true.

Order of landing is arbitrary; each object's observations come in order. Of two objects' ones any
may come first, which is more than a real watch does.
"""

import copy
from typing import NamedTuple

import msgspec

from bus.clock import SECOND_US
from bus.events.admissions import QuotaSpec
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.shape import BUSINESS
from reactors.admission.deciding.decide import Request, decide
from reactors.admission.deciding.declare import Proposal, declare
from reactors.admission.deciding.reconcile import (
    Absent,
    LastSeen,
    SeenQuota,
    declared,
    settle,
    shows,
)
from tests.quota_trees import CPU, observed

#: The API server's request deadline, and most that a stamp of the watch is too late.
DEADLINE, LAG = 60, 14
#: Ages beyond this are alike: later than anything is compared with.
OLD = 90
#: Longest that a decision waits for its append.
SLOW = 15


class Instance(NamedTuple):
    """How large a world is."""

    objects: int = 2
    demands: tuple = (1, 2)
    #: Name, parent, limit, and the limits that may be asked for it (None: its delete).
    quotas: tuple = (("q", "", 2, ()),)
    #: The quotas that objects may ask in.
    places: tuple = ("q",)
    #: Most requests of one object or quota in flight, and observations of it on their way.
    flights: int = 2
    queue: int = 1
    steps: tuple = (15, 60)
    #: Whether an object may be seen again without news, and decisions be made on an old view.
    touches: bool = False
    is_stale: bool = False


class Flight(NamedTuple):
    """A request that was admitted: it lands or fails. ``value`` None: a delete."""

    value: object
    asked: int
    creates: bool
    uid: int = 0


class Thing(NamedTuple):
    """An object or a quota's object: as it is, as it may become, as it was said and seen to be.

    Values are (quota, demand) of an object and (uid, limit) of a quota. ``queue`` and ``seen`` are
    (value or None, second); ``confirmed`` are (quota, number).
    """

    truth: object = None
    is_dead: bool = False
    flights: tuple = ()
    queue: tuple = ()
    seen: object = None
    was_seen: bool = False
    confirmed: tuple = ()
    born: int = 0


class Rules:
    """How the product does it; the broken variants change one thing each."""

    expects = True

    def shows(self, grant, seen):
        return shows(grant, seen)

    def evidence(self, world, index):
        """What the keeper holds against the grants of an object."""
        thing, uid = world.objects[index], f"u{index}"
        if thing.seen is None:
            return None
        value, at = thing.seen
        if value is None and not thing.was_seen:
            return Absent(uid, at * SECOND_US)
        quota, demand = value or ("", 0)
        return LastSeen(
            uid, "Job", "ns", uid, quota, {CPU: demand} if value else {}, {}, at * SECOND_US,
            value is None,
        )  # fmt: skip

    def declared(self, draft, seen):
        return declared(draft, seen)


class World(NamedTuple):
    """One state. Actions give the state after them, or None where nothing would change."""

    instance: Instance
    rules: Rules
    now: int
    tree: Tree
    objects: tuple
    quotas: tuple
    #: A decision that waits for its append: (object, answer, second).
    slot: object = None

    # asks

    def request(self, index, quota, demand):
        return Request(quota, f"u{index}", "Job", "ns", f"u{index}", {CPU: demand})

    def can_ask(self, index):
        thing = self.objects[index]
        return not thing.is_dead and len(thing.flights) < self.instance.flights

    def ask(self, index, quota, demand):
        """A webhook decides, stores and answers at once."""
        return self.asked(index, self.answered(index, quota, demand), self.now)

    def answered(self, index, quota, demand):
        request = self.request(index, quota, demand)
        return decide(TreeOverlay(self.tree), request, self.now * SECOND_US)

    def asked(self, index, answer, at):
        if answer.verdict == "refused":
            return None
        thing = self.objects[index]
        value = (answer.quota, answer.demand[CPU])
        flights = (*thing.flights, Flight(value, at, thing.truth is None))
        return self.stored(answer, at=at).put(index, flights=flights)

    def consider(self, index, quota, demand):
        """A webhook decides; what it decided is not stored yet."""
        answer = self.answered(index, quota, demand)
        return (
            None if answer.verdict == "refused" else self._replace(slot=(index, answer, self.now))
        )

    def append(self):
        """It is stored, unless the journal's end is not the one that it was decided on."""
        index, answer, at = self.slot
        world = self._replace(slot=None)
        answer = msgspec.structs.replace(answer, number=self.tree.number + 1)
        return world.asked(index, answer, at) if world.can_ask(index) else world

    def stored(self, *facts, at=None):
        """The journal with these at its end; a decision on an older one is refused by the bus."""
        tree = cloned(self.tree)
        for fact in facts:
            at = self.now if at is None else at
            tree.apply(fact, tree.sequence + 1, at * SECOND_US)
        return self._replace(tree=tree, slot=None if self.rules.expects else self.slot)

    # the cluster

    def put(self, index, **fields):
        things = list(self.objects)
        things[index] = things[index]._replace(**fields)
        return self._replace(objects=tuple(things))

    def put_quota(self, index, **fields):
        things = list(self.quotas)
        things[index] = things[index]._replace(**fields)
        return self._replace(quotas=tuple(things))

    def said(self, thing, value):
        return (*thing.queue, (value, self.now + LAG))[-self.instance.queue :]

    def land(self, index, which):
        thing = self.objects[index]
        flight = thing.flights[which]
        rest = thing.flights[:which] + thing.flights[which + 1 :]
        # A create of what exists fails.
        rest = tuple(f for f in rest if not f.creates)
        return self.put(
            index, truth=flight.value, flights=rest, queue=self.said(thing, flight.value)
        )

    def land_quota(self, index, which):
        thing = self.quotas[index]
        flight = thing.flights[which]
        rest = thing.flights[:which] + thing.flights[which + 1 :]
        truth = None if flight.value is None else (flight.uid, flight.value)
        world = self.put_quota(index, truth=truth, flights=rest, queue=self.said(thing, truth))
        return world.put_quota(index, flights=world.landable(index))

    def landable(self, index):
        """The requests about a quota that can land: others fail by its uid or its name."""
        thing = self.quotas[index]
        uid = thing.truth[0] if thing.truth else 0
        return tuple(f for f in thing.flights if f.creates or f.uid == uid)

    def delete(self, index):
        thing = self.objects[index]
        return self.put(index, truth=None, is_dead=True, flights=(), queue=self.said(thing, None))

    def touch(self, index):
        """Something else of the object changed."""
        thing = self.objects[index]
        return self.put(index, queue=self.said(thing, thing.truth))

    def wait(self, seconds):
        now = self.now + seconds
        slot = self.slot if self.slot and now - self.slot[2] <= SLOW else None
        world = self._replace(now=now, slot=slot)
        for index, thing in enumerate(self.objects):
            alive = tuple(f for f in thing.flights if now - f.asked <= DEADLINE)
            world = world.put(index, flights=alive) if alive != thing.flights else world
        for index, thing in enumerate(self.quotas):
            alive = tuple(f for f in thing.flights if now - f.asked <= DEADLINE)
            world = world.put_quota(index, flights=alive) if alive != thing.flights else world
        return world

    def list(self):
        """A complete list: it supersedes what the watch has not said yet."""
        world = self
        for index, thing in enumerate(self.objects):
            if thing.truth or thing.queue or f"u{index}" in self.tree.holders:
                world = world.put(index, queue=((thing.truth, self.now),))
        for index, thing in enumerate(self.quotas):
            if self.instance.quotas[index][3]:
                world = world.put_quota(index, queue=((thing.truth, self.now),))
        return world

    # the keeper

    def deliver(self, index):
        thing = self.objects[index]
        seen = thing.queue[0]
        if thing.was_seen and thing.seen[0] is None:
            seen = thing.seen
        return self.put(
            index, queue=thing.queue[1:], seen=seen, was_seen=thing.was_seen or seen[0] is not None
        )

    def deliver_quota(self, index):
        thing = self.quotas[index]
        return self.put_quota(index, queue=thing.queue[1:], seen=thing.queue[0])

    def keep(self, index):
        """The keeper compares what it holds of an object with the journal as it is."""
        evidence, thing = self.rules.evidence(self, index), self.objects[index]
        if evidence is None:
            return None
        confirmed = {(quota, evidence.uid): number for quota, number in thing.confirmed}
        if isinstance(evidence, LastSeen):
            for grant in self.grants(index):
                if self.rules.shows(grant, evidence):
                    confirmed[(grant.quota, grant.uid)] = grant.number
        facts = settle(TreeOverlay(self.tree), evidence, confirmed)
        pairs = tuple(sorted((quota, number) for (quota, _), number in confirmed.items()))
        if not facts and pairs == thing.confirmed:
            return None
        world = self.stored(*facts) if facts else self
        return world.put(index, confirmed=pairs)

    def grants(self, index):
        uid = f"u{index}"
        quotas = sorted(self.tree.holders.get(uid, ()))
        return [self.tree.nodes[quota].grants[uid] for quota in quotas]

    # quotas

    def propose(self, index, limit):
        name, parent, _, _ = self.instance.quotas[index]
        thing = self.quotas[index]
        operation = "CREATE" if thing.truth is None else "UPDATE" if limit is not None else "DELETE"
        uid = thing.born + 1 if operation == "CREATE" else thing.truth[0]
        spec = None if limit is None else QuotaSpec(hard={CPU: limit})
        node = self.tree.nodes.get(name)
        if limit is not None and node is not None and limit < node.used(CPU):
            return None  # Accepted, and over-committed from then on: not what is asked here.
        proposal = Proposal(operation, name, str(uid), parent, spec, old_parent=parent)
        answer = declare(TreeOverlay(self.tree), proposal, self.now * SECOND_US)
        if answer.verdict == "refused":
            return None
        flight = Flight(limit, self.now, operation == "CREATE", uid)
        return self.stored(answer).put_quota(
            index, flights=(*thing.flights, flight), born=max(thing.born, uid)
        )

    def keep_quota(self, index):
        name, parent, _, _ = self.instance.quotas[index]
        thing, node = self.quotas[index], self.tree.nodes.get(name)
        if thing.seen is None:
            return None
        value, at = thing.seen
        if value is None and node is None:
            return None
        uid = str(value[0]) if value else node.uid
        spec = QuotaSpec(hard={CPU: value[1]}) if value else None
        seen = SeenQuota(name, uid, BUSINESS, parent, spec, at * SECOND_US)
        fact = self.rules.declared(TreeOverlay(self.tree), seen)
        return None if fact is None else self.stored(fact)


def start(instance, rules=None):
    """Nothing is asked for, and every quota was seen."""
    tree = Tree("t")
    for name, parent, hard, _ in instance.quotas:
        fact = observed(tree, name, hard, parent=parent)
        tree.apply(msgspec.structs.replace(fact, uid="1"), tree.sequence + 1, 0)
    quotas = tuple(Thing(truth=(1, hard), born=1) for _, _, hard, _ in instance.quotas)
    objects = (Thing(),) * instance.objects
    return World(instance, rules or Rules(), 1000, tree, objects, quotas)


def cloned(tree):
    """A tree of its own."""
    other = copy.copy(tree)
    other.nodes = {
        name: msgspec.structs.replace(
            node, self_used=dict(node.self_used), children=dict(node.children),
            claims=dict(node.claims), grants=dict(node.grants),
            by_namespace={ns: dict(own) for ns, own in node.by_namespace.items()},
        )
        for name, node in tree.nodes.items()
    }  # fmt: skip
    other.holders = {uid: set(quotas) for uid, quotas in tree.holders.items()}
    return other
