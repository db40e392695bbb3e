"""A gang gets nodes of one domain: of a label that its PodGroup names, or of the narrowest of the profile that has room."""

from random import Random

import msgspec
import pytest

from bus.events.pods import NATIVE
from reactors.scheduling.plugins.coscheduling import MOST_TRIED
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests.reactors.scheduling.ganging import Ganging

RACK, ZONE = "example.com/rack", "topology.kubernetes.io/zone"


class Racks(Ganging):
    """A cluster whose nodes, each with room for two pods of a gang, lie in racks."""

    async def begin(self, racks="aab", zones="xxy", **fields):
        profile = SchedulingProfile(fields={"Coscheduling": fields} if fields else {})
        await self.set_policy(SchedulingPolicy(profiles=(profile,)), "on")
        labels = [{RACK: rack, ZONE: zone} for rack, zone in zip(racks, zones, strict=True)]
        for at, one in enumerate(labels):
            said = {key: text for key, text in one.items() if text != "-"}
            await self.say(self.node(f"n{at}", labels=said))
        return self

    def domains(self, key=RACK):
        """The domains in which pods got nodes."""
        nodes = {one.name: one.labels for one in self.runner.replica.cluster_state.current_nodes()}
        return {nodes[node].get(key) for node in self.outstanding().values()}


def gang(cluster, number, name="g", **group):
    return [
        cluster.group(name, number, **group),
        *(cluster.of(f"{name}{at}", name) for at in range(number)),
    ]


async def test_all_pods_of_a_gang_that_names_a_label_get_nodes_of_one_domain():
    cluster = await Racks().begin("abab", "xxxx")
    await cluster.say(*gang(cluster, 4, topology=RACK))

    assert len(cluster.outstanding()) == 4
    assert len(cluster.domains()) == 1
    cluster.same()


async def test_a_gang_for_which_no_domain_has_room_waits_and_says_so():
    cluster = await Racks().begin("abc", "xxx")
    await cluster.say(*gang(cluster, 4, topology=RACK))
    before, why = cluster.outstanding(), cluster.reason("g0")
    await cluster.say(cluster.node("n4", labels={RACK: "b"}))
    await cluster.tick()

    assert before == {}
    assert f"no {RACK} has room for the 4 pods that gang ns/g still needs" in why
    assert cluster.domains() == {"b"}
    cluster.same()


async def test_nodes_without_the_label_are_none_of_its_domains():
    cluster = await Racks().begin("--a", "xxx")
    await cluster.say(*gang(cluster, 4, topology=RACK), *gang(cluster, 2, "h", topology=RACK))

    assert {uid[0] for uid in cluster.outstanding()} == {"h"}
    assert cluster.domains() == {"a"}


async def test_a_pod_that_takes_the_place_of_a_lost_one_goes_where_its_gang_is():
    cluster = await Racks().begin("aabb", "xxxx")
    running = [cluster.of(f"g{at}", node="n2") for at in range(2)]
    await cluster.say(cluster.group(least=2, topology=RACK), *running, cluster.of("late"))

    assert cluster.outstanding() == {"late": "n3"}
    cluster.same()


@pytest.mark.parametrize(("strategy", "rack"), [("pack", "b"), ("spread", "a")])
async def test_of_domains_that_fit_the_one_with_the_least_or_the_most_room_is_taken(strategy, rack):
    cluster = await Racks().begin("aaabb", "xxxxx", topology=[RACK], strategy=strategy)
    await cluster.say(*gang(cluster, 4))

    assert cluster.domains() == {rack}
    cluster.same()


@pytest.mark.parametrize(
    ("number", "racks", "zones"),
    [(2, 1, 1), (4, 1, 1), (6, 2, 1), (8, 4, 2)],
    ids=["one rack", "whole rack", "one zone", "all nodes"],
)
async def test_the_narrowest_domain_with_room_is_taken_and_else_a_wider_one(number, racks, zones):
    cluster = await Racks().begin("aabcd", "xxxyy", topology=[ZONE, RACK])
    await cluster.say(*gang(cluster, number))

    assert len(cluster.outstanding()) == number
    assert (len(cluster.domains()), len(cluster.domains(ZONE))) <= (racks, zones)
    cluster.same()


async def test_gangs_of_one_group_get_domains_each_of_its_own_or_none_starts():
    both = '["ns/g","ns/h"]'
    cluster = await Racks().begin("aab", "xxx")
    await cluster.say(
        *gang(cluster, 4, groups=both, topology=RACK), *gang(cluster, 4, "h", groups=both, topology=RACK)
    )  # fmt: skip
    before = cluster.outstanding()
    await cluster.say(cluster.node("n3", labels={RACK: "b"}))
    await cluster.tick()
    found = cluster.outstanding()

    assert before == {}
    assert {found[f"g{n}"] for n in range(4)} | {found[f"h{n}"] for n in range(4)} == {"n0", "n1", "n2", "n3"}  # fmt: skip
    assert len({found[f"g{n}"] for n in range(4)} & {found[f"h{n}"] for n in range(4)}) == 0
    cluster.same()


async def test_a_domain_that_only_seems_to_have_room_is_given_up_for_the_next():
    """Requests of both fit onto the one node of rack a, but both ask for the same host port."""
    cluster = await Racks().begin("abb", "xxx")
    ports = {"hostPorts": [{"port": 80}]}
    named = {"schedulerName": "bursar", "gang": {"name": "g"}} | ports
    raw = msgspec.Raw(msgspec.json.encode(named))
    pods = [cluster.pod(f"g{at}", constraints=raw, namespace="ns", cpu="2") for at in range(2)]
    await cluster.say(cluster.group(least=2, topology=RACK), *pods)

    assert cluster.domains() == {"b"}
    cluster.same()


@pytest.mark.parametrize("key", ["x" * 400, "no/such label", "\N{SNOWMAN}", "-"])
async def test_a_label_that_no_node_has_lets_only_its_own_gang_wait(key):
    cluster = await Racks().begin()
    await cluster.say(*gang(cluster, 2, topology=key), *gang(cluster, 2, "h"))

    assert {uid[0] for uid in cluster.outstanding()} == {"h"}


async def test_pods_with_labels_of_their_own_are_alike():
    """As those of an Indexed Job: nine racks with room for two pods, one with room for the gang."""
    cluster = await Racks().begin("abcdefghijj", "x" * 11)
    pods = gang(cluster, 4, topology=RACK)[:1] + [
        cluster.of(f"g{at}", labels={"batch.kubernetes.io/job-completion-index": str(at)})
        for at in range(4)
    ]
    await cluster.say(*pods)

    assert len(cluster.outstanding()) == 4 and cluster.domains() == {"j"}
    cluster.same()


async def test_pods_beyond_what_a_gang_needs_do_not_take_the_others_to_a_second_domain():
    cluster = await Racks().begin("abb", "xxx")
    running = [cluster.of("g0", node="n0"), cluster.of("other", "-", "n0", scheduler="x")]
    waiting = [cluster.of(f"g{at}") for at in (1, 2, 3)]
    await cluster.say(*running, cluster.group(least=3, topology=RACK), *waiting)

    assert cluster.outstanding() == {}
    assert f"no {RACK} has room" in cluster.reason("g1")


@pytest.mark.parametrize("least", [None, 1])
async def test_pods_that_are_placed_one_by_one_follow_the_first_one_also_within_a_pass(least):
    cluster = await Racks().begin("aabb", "xxxx")
    mode = {} if least is None else {"mode": "NonStrict"}
    await cluster.say(
        cluster.group(least=least, topology=RACK, kind=NATIVE, **mode), *(cluster.of(f"g{at}") for at in range(6))
    )  # fmt: skip
    await cluster.tick()

    assert len(cluster.outstanding()) == 4 and len(cluster.domains()) == 1
    cluster.same()


async def test_a_member_on_a_node_without_the_label_says_nothing_of_the_domain():
    cluster = await Racks().begin("-aa", "xxx")
    running = [cluster.of("g0", node="n0"), cluster.of("g1", node="gone")]
    await cluster.say(
        cluster.group(least=2, topology=RACK), *running, *(cluster.of(f"l{at}") for at in range(2))
    )

    assert len(cluster.outstanding()) == 2 and cluster.domains() == {"a"}


@pytest.mark.parametrize("seed", range(12))
async def test_in_random_worlds_a_gang_starts_where_one_domain_has_room_and_only_there(seed):
    """A brute-force oracle: two pods fit onto each node, so a domain holds twice as many as it has free nodes."""
    random = Random(seed)
    count = random.randint(3, 3 * MOST_TRIED)
    racks = "".join(random.choice("abcdef-") for _ in range(count))
    cluster = await Racks().begin(racks, "x" * count)
    taken = random.sample(range(count), count // 3)
    await cluster.say(*(cluster.of(f"t{at}", "t", f"n{at}", scheduler="other") for at in taken))
    room = {rack: 0 for rack in racks if rack != "-"}
    for at, rack in enumerate(racks):
        if rack != "-":
            room[rack] += 1 if at in taken else 2
    number = random.randint(1, 8)
    await cluster.say(*gang(cluster, number, topology=RACK))

    fits = [free for free in room.values() if free >= number]
    assert len(cluster.outstanding()) == (number if fits else 0)
    if fits:
        (rack,) = cluster.domains()
        assert room[rack] == min(fits)
    cluster.same()
