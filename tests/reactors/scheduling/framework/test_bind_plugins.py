"""PreBind, Bind and PostBind are hooks of plugins: what fails gives the node back, one plugin binds, and all hear of it."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from bus.errors import PermanentError
from reactors.scheduling.effectors.binder import Binder
from reactors.scheduling.effects import trouble
from reactors.scheduling.framework.bind import DONE, Outcomes, Prepared
from reactors.scheduling.framework.contract import Bind, PostBind, PreBind
from reactors.scheduling.plugins.catalogue import PLUGINS, default_profile, profile_of
from reactors.scheduling.plugins.default_binder import DefaultBinder
from reactors.scheduling.plugins.reservation import Reservation
from reactors.scheduling.plugins.volumes.volume_binding import VolumeBinding
from tests.reactors.scheduling.bindable import Process, Server
from tests.reactors.scheduling.ganging import Ganging
from tests.reactors.scheduling.outstanding import World

pytestmark = pytest.mark.simulated


Quiet = SimpleNamespace(trouble="")


class Hooked:
    """A plugin that notes what it is asked, and answers what is given, the last answer for ever."""

    name, is_local = "Hooked", True

    def __init__(self, log, *answers):
        self.log, self.answers = log, list(answers)

    def answer(self, hook, cycle):
        self.log.append((hook, cycle.placement.uid))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Prepares(Hooked):
    async def pre_bind(self, cycle):
        await asyncio.sleep(0)
        return self.answer("pre", cycle)


class Binds(Hooked):
    async def bind_pod(self, cycle):
        return self.answer("bind", cycle)


class Hears(Hooked):
    def post_bind(self, cycle):
        self.answer("post", cycle)


def asked(log, hook):
    return [uid for one, uid in log if one == hook]


async def test_the_first_that_does_not_skip_binds_alone_and_everybody_hears_of_it():
    world, log = World("p"), []
    world.plugins = [
        Hears(log, None), Binds(log, None), Binds(log, Outcomes("bound")), DefaultBinder(), Hears(log, None),
    ]  # fmt: skip
    await world.run()

    assert [hook for hook, _ in log] == ["bind", "bind", "post", "post"]
    # The default one was not asked, and says nothing of what it did not bind but that it was bound.
    assert (world.cluster.asked, world.told, world.settled) == ([], ["p"], [])


async def test_what_every_plugin_leaves_to_another_gives_its_node_back():
    world, log = World("p", "q"), []
    world.plugins = [Binds(log, None), Hears(log, None)]
    world.cluster.nodes = {"q": "n1"}
    await world.run()

    assert world.settled == [("p", "refused")]
    # Somebody else had bound it there.
    assert asked(log, "post") == ["q"]


async def test_a_failed_pre_bind_gives_the_node_back_and_nobody_after_it_is_asked():
    world, log = World("p"), []
    world.plugins = [
        Prepares(log, DONE), Prepares(log, Prepared(why="no key")), Prepares(log, DONE), Binds(log, Outcomes("bound")),
        Hears(log, None),
    ]  # fmt: skip
    await world.run()

    assert ([hook for hook, _ in log], world.settled) == (["pre", "pre"], [("p", "refused")])


async def test_a_pre_bind_that_waits_is_asked_again_when_it_asked_for_it():
    world, log = World("p", "q"), []
    first = Prepares(log, Prepared(5.0))
    world.plugins = [first, DefaultBinder(), Hears(log, None)]
    await world.run(14.0)
    before = (asked(log, "pre"), dict(world.cluster.nodes))
    first.answers = [DONE]
    await world.run(14.0)

    assert (sorted(before[0]), before[1]) == (["p"] * 3 + ["q"] * 3, {})
    assert world.cluster.nodes == {"p": "n1", "q": "n1"}


async def test_what_is_overtaken_while_a_pre_bind_does_its_part_is_not_bound():
    world, log = World("p", "q"), []

    class Slow(Prepares):
        async def pre_bind(self, cycle):
            await asyncio.sleep(1)
            return DONE

    world.plugins = [Slow(log, DONE), DefaultBinder()]
    async with world.running():
        await asyncio.sleep(0.5)
        world.against, world.moves = {"p": "node_gone"}, world.moves + 1
        world.wanted.pop("q")
        await asyncio.sleep(2)

    assert (world.cluster.asked, world.settled) == ([], [("p", "refused")])


async def test_what_a_plugin_keeps_between_tries_ends_with_the_decision():
    world, seen = World("p"), []

    class Keeps(Prepares):
        async def pre_bind(self, cycle):
            cycle.data[self.name] = cycle.data.get(self.name, 0) + 1
            seen.append((cycle.placement.node, cycle.data[self.name]))
            return Prepared(1.0)

    world.plugins = [Keeps([], DONE)]
    async with world.running():
        await asyncio.sleep(1.5)
        world.place("p", "n2", "d2")
        await asyncio.sleep(1.5)

    assert seen == [("n1", 1), ("n1", 2), ("n2", 1), ("n2", 2)]


async def test_a_pod_whose_pre_bind_fails_is_unreserved_and_waits_again_after_its_back_off():
    cluster, log = Ganging(), []
    await cluster.begin(nodes=1)
    server = Server(cluster, None)
    server.troubles = 0
    await cluster.say(cluster.pod("a", cpu="2"))
    scheduler = cluster.state.scheduler
    free = scheduler.columns.resources.free.copy()
    [plugins] = scheduler.runners.binders.values()
    plugins._pre_binds = [Prepares(log, Prepared(why="no key"), DONE)]
    await Process(cluster, server).run(60)

    assert asked(log, "pre") == ["a", "a"]
    assert (server.nodes, cluster.outstanding()) == ({"a": "n0"}, {})
    assert (scheduler.columns.resources.free == free).all()
    [again] = [one for queue in scheduler.queues.values() for one in queue] or [None]
    assert again is None


class Fails:
    """Raises for one pod at one hook, so often."""

    name, is_local = "Fails", True

    def __init__(self, times):
        self.left = times

    def fail(self, cycle):
        if cycle.placement.uid == "p" and self.left:
            self.left -= 1
            raise KeyError("no such key")


class FailsBefore(Fails):
    async def pre_bind(self, cycle):
        self.fail(cycle)
        return DONE


class FailsWhile(Fails):
    async def bind_pod(self, cycle):
        self.fail(cycle)
        return None


class FailsAfter(Fails):
    def post_bind(self, cycle):
        self.fail(cycle)


@pytest.mark.parametrize("kind", [FailsBefore, FailsWhile, FailsAfter])
async def test_what_a_plugin_raises_for_one_pod_is_told_and_the_others_are_bound(kind, caplog):
    world = World("p", *(f"q{n}" for n in range(30)))
    world.plugins = [kind(2), DefaultBinder()]
    async with world.running():
        await asyncio.sleep(20)
        early, told = dict(world.cluster.nodes), dict(world.binder.failures)
        said = list(trouble(world.binder, Quiet, SimpleNamespace(late=list), Quiet))
        await asyncio.sleep(20)
        world.against = {"p": "node_gone"} if kind is not FailsAfter else {}
        await asyncio.sleep(60)
        kept = list(world.settled)
        world.against = {}
        await asyncio.sleep(100)

        assert world.binder.failures == {}
    words = "plugin Fails failed with ns/p: KeyError: 'no such key'"
    assert told == {"p": words}
    assert said == [f"the binds of 1 pods fail, and are tried again: {words}"]
    assert [one.message for one in caplog.records if one.exc_info] == [words]
    # What it did before it failed is not known, so its room is kept.
    assert (len(early), kept) == (31 - (kind is not FailsAfter), [])
    assert len(world.cluster.nodes) == 31 and world.told.count("p") == 1


async def test_who_lost_its_lock_binds_nothing_more():
    """Its fence stands before each write, and raises what nobody passes over."""

    class Fenced:
        name, is_local = "Fenced", True

        async def bind_pod(self, cycle):
            raise PermanentError("the lock is lost")

    world = World("p", "q")
    world.plugins = [Fenced(), DefaultBinder()]
    binder = Binder(world.cluster, world, world.settle, lambda one: None)
    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.timeout(20):
            await binder.run()

    assert caught.group_contains(PermanentError)
    assert world.cluster.nodes == {}


async def test_annotations_that_cannot_be_made_keep_one_pod_waiting(monkeypatch):
    world, binding = World("p", "q"), World.binding

    def broken(self, placement):
        plugins, known = binding(self, placement)
        bad = {} if placement.uid == "q" else None
        return plugins, msgspec.structs.replace(known, annotations=lambda: {**bad})

    monkeypatch.setattr(World, "binding", broken)
    async with world.running():
        await asyncio.sleep(100)
        told = list(world.binder.failures.values())

    assert world.cluster.nodes == {"q": "n1"}
    assert len(told) == 1 and "plugin DefaultBinder failed with ns/p: TypeError" in told[0]


def test_which_plugins_bind():
    plugins = [one.plugin for one in default_profile("bursar").plugins]

    assert [one.name for one in plugins if isinstance(one, PreBind)] == ["VolumeBinding"]
    assert [one.name for one in plugins if isinstance(one, Bind)] == ["DefaultBinder"]
    assert [one.name for one in plugins if isinstance(one, PostBind)] == ["DefaultBinder"]
    # Who takes every pod on comes last.
    binding = [one.name for one, _ in PLUGINS if isinstance(one, Bind)]
    assert binding == [Reservation.name, DefaultBinder.name]
    assert isinstance(VolumeBinding(), PreBind)


@pytest.mark.parametrize("others", [{}, {"Reservation": 10}])
def test_a_profile_without_a_plugin_that_binds_pods_is_refused(others):
    profile_of("bursar", others, {})
    with pytest.raises(ValueError, match="binds"):
        profile_of("bursar", {"DefaultBinder": 0} | others, {})
