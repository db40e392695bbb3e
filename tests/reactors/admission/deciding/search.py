"""Every state of the world of :mod:`tests.reactors.admission.deciding.model` that can be reached, and what is wrong with one."""

from typing import NamedTuple

from bus.clock import SECOND_US
from tests.quota_trees import CPU
from tests.reactors.admission.deciding.model import OLD, start


def actions(world):
    """Everything that can happen next: (name, arguments)."""
    instance = world.instance
    for index, thing in enumerate(world.objects):
        if world.can_ask(index):
            for quota in instance.places:
                for demand in instance.demands:
                    yield "ask", index, quota, demand
                    if instance.is_stale and world.slot is None:
                        yield "consider", index, quota, demand
        for which in range(len(thing.flights)):
            yield "land", index, which
        if thing.truth:
            yield "delete", index
            if instance.touches and not thing.queue:
                yield "touch", index
        if thing.queue:
            yield "deliver", index
        yield "keep", index
    for index, (_, _, _, limits) in enumerate(instance.quotas):
        thing = world.quotas[index]
        if len(thing.flights) < instance.flights:
            for limit in limits:
                if limit is not None or thing.truth:
                    yield "propose", index, limit
        for which, flight in enumerate(thing.flights):
            if flight.creates == (thing.truth is None):
                yield "land_quota", index, which
        if thing.queue:
            yield "deliver_quota", index
        if limits:
            yield "keep_quota", index
    if world.slot is not None:
        yield ("append",)
    yield ("list",)
    for seconds in instance.steps:
        yield "wait", seconds


def key(world):
    """The state without what makes no difference: absolute times, numbers, names of objects."""
    now, slot = world.now, world.slot
    parts = []
    for index, thing in enumerate(world.objects):
        grants = world.grants(index)
        asks = [grant.asked_us // SECOND_US for grant in grants]
        confirmed = dict(thing.confirmed)
        parts.append(
            (
                thing.truth or (), thing.is_dead, thing.was_seen,
                tuple(sorted((f.value, now - f.asked, f.creates) for f in thing.flights)),
                tuple((v or (), _when(at, now, asks)) for v, at in thing.queue),
                (thing.seen[0] or (), _when(thing.seen[1], now, asks)) if thing.seen else (),
                tuple(
                    (
                        g.quota, g.charge.get(CPU, 0), g.demand.get(CPU, 0),
                        min(now - at, OLD), g.is_alone, g.is_same, confirmed.get(g.quota, 0) == g.number,
                    )
                    for g, at in zip(grants, asks, strict=True)
                ),
                (slot[1].quota, slot[1].demand[CPU], slot[1].charge[CPU], now - slot[2])
                if slot and slot[0] == index else (),
            )
        )  # fmt: skip
    parts.sort()
    return tuple(parts), tuple(_quota_key(world, index) for index in range(len(world.quotas)))


def _quota_key(world, index):
    name, _, _, limits = world.instance.quotas[index]
    if not limits:
        return ()
    thing, node, now = world.quotas[index], world.tree.nodes.get(name), world.now
    at = node.asked_us // SECOND_US if node else 0
    asks = [at] if node and node.asked else []
    names = {}

    def alias(uid):
        return names.setdefault(int(uid), len(names))

    stands = ()
    if node is not None:
        stands = (
            node.observed.hard[CPU] if node.observed else None, alias(node.uid),
            tuple((spec.hard[CPU], bool(spec.problem)) for spec in node.asked),
            min(now - at, OLD) if asks else 0, node.is_alone if asks else True,
        )  # fmt: skip
    return (
        stands,
        (thing.truth[1], alias(thing.truth[0])) if thing.truth else (),
        tuple((f.value, now - f.asked, f.creates, alias(f.uid)) for f in thing.flights),
        tuple(((v[1], alias(v[0])) if v else (), _when(t, now, asks)) for v, t in thing.queue),
        ((thing.seen[0][1], alias(thing.seen[0][0])) if thing.seen[0] else (),
         _when(thing.seen[1], now, asks)) if thing.seen else (),
    )  # fmt: skip


def _when(at, now, asks):
    """A time of evidence: against each ask there is, and against one that is still to come."""
    return (min(now - at, 1), *((at - ask >= 0) + (at - ask >= 75) for ask in asks))


def violation(world):
    """What is wrong in this state; "" if nothing is."""
    held = {name: 0 for name, _, _, _ in world.instance.quotas}
    for index, thing in enumerate(world.objects):
        charges = {grant.quota: grant.charge.get(CPU, 0) for grant in world.grants(index)}
        for quota, demand in [
            *([thing.truth] if thing.truth else []),
            *(f.value for f in thing.flights),
        ]:
            if charges.get(quota, 0) < demand:
                return f"u{index} holds {demand} of {quota}, or may, and is charged {charges}"
        if thing.truth:
            held[thing.truth[0]] += thing.truth[1]
    return _overdrawn(world, held)


def _overdrawn(world, held):
    for index, (_, parent, _, _) in enumerate(world.instance.quotas):
        truth = world.quotas[index].truth
        if parent and truth:
            held[parent] += truth[1]
    for index, (name, _, _, _) in enumerate(world.instance.quotas):
        truth, node = world.quotas[index].truth, world.tree.nodes.get(name)
        used = node.used(CPU) if node else 0
        if used < 0:
            return f"{used} of {name} are used"
        if held[name] > (truth[1] if truth else 0):
            return f"{held[name]} of {name} are held and its limit is {truth}"
        if used < held[name]:
            return f"{held[name]} of {name} are held and {used} charged"
    return ""


def leak(world):
    """What stays charged, though nothing is on its way and everything was listed; "" if nothing does."""
    world = world.wait(OLD).list()
    for index, thing in enumerate(world.quotas):
        world = world.deliver_quota(index) if thing.queue else world
        world = world.keep_quota(index) or world
    for index, thing in enumerate(world.objects):
        world = world.deliver(index) if thing.queue else world
        world = world.keep(index) or world
    for index, thing in enumerate(world.objects):
        charges = [(grant.quota, grant.charge[CPU]) for grant in world.grants(index)]
        if charges != ([thing.truth] if thing.truth else []):
            return f"u{index} is {thing.truth} and charged {charges}"
    for index, (name, _, _, _) in enumerate(world.instance.quotas):
        truth, node = world.quotas[index].truth, world.tree.nodes.get(name)
        stands = node and (node.observed and node.observed.hard[CPU], len(node.asked))
        if stands != ((truth[1], 0) if truth else None):
            return f"{name} is {truth} and stands as {stands}"
    return ""


class Found(NamedTuple):
    """What an exploration came to."""

    states: int
    checked: int
    wrong: str
    path: tuple


def explore(world, most=10**9):
    """Every state that can be reached, nearest first, until one is wrong or ``most`` were found."""
    came = {hash(key(world)): None}
    frontier, checked = [(hash(key(world)), world)], 0
    while frontier:
        following = []
        for code, world in frontier:
            for action, *arguments in actions(world):
                after = getattr(world, action)(*arguments)
                if after is None:
                    continue
                after_code = hash(key(after))
                if after_code in came:
                    continue
                came[after_code] = (code, (action, *arguments))
                wrong = violation(after)
                if not wrong and is_quiet(after):
                    checked += 1
                    wrong = leak(after)
                if wrong or len(came) >= most:
                    return Found(len(came), checked, wrong, path(came, after_code))
                following.append((after_code, after))
        frontier = following
    return Found(len(came), checked, "", ())


def is_quiet(world):
    """Whether nothing is on its way."""
    things = (*world.objects, *world.quotas)
    return world.slot is None and not any(thing.flights or thing.queue for thing in things)


def path(came, code):
    """How a state came about, as actions."""
    steps = []
    while came[code] is not None:
        code, step = came[code]
        steps.append(step)
    return tuple(reversed(steps))


def replayed(instance, steps, rules=None):
    """The states along a path; None where a step changes nothing."""
    world = start(instance, rules)
    found = [world]
    for action, *arguments in steps:
        world = getattr(world, action)(*arguments) or world
        found.append(world)
    return found
