"""Claims of volumes: random worlds that change against kube-scheduler's rules in plain Python, and each wait in its words."""

from random import Random

import pytest

from bus.events.constraints import NodeSelector, NodeSelectorTerm, Requirement
from bus.events.volumes import (
    CsiNodeObserved,
    StorageClassObserved,
    TopologyRequirement,
    TopologyTerm,
)
from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.plugins.volumes.node_volume_limits import NodeVolumeLimits
from reactors.scheduling.plugins.volumes.volume_binding import VolumeBinding
from reactors.scheduling.plugins.volumes.volume_restrictions import VolumeRestrictions
from reactors.scheduling.plugins.volumes.volume_zone import VolumeZone
from tests.reactors.scheduling.terms import constrained
from tests.reactors.scheduling.worlds import World, reasons

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
PLUGINS = (VolumeRestrictions(), NodeVolumeLimits(), VolumeBinding(), VolumeZone())
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
ZONES = "node(s) had no available volume zone"
FULL = "node(s) exceed max volume count"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod"
)
NODES, CLAIMS, VOLUMES = ("n0", "n1", "n2"), ("c0", "c1", "c2", "c3"), ("v0", "v1", "v2", "v3")


def claiming(*names, ephemeral=()):
    return constrained({"claims": names, "ephemeralClaims": ephemeral})


def answer(cycle):
    """What the plugins say of a pod: why it waits, or by node all reasons against it."""
    found = {}
    skipped = []
    for plugin in PLUGINS:
        status = plugin.pre_filter(cycle)
        if status is not None and status.reason:
            return status.reason
        skipped.append(status is not None)
    for plugin, is_skipped in zip(PLUGINS, skipped, strict=True):
        for node, why in reasons(plugin, cycle).items():
            assert not is_skipped
            found.setdefault(node, set()).update(why)
    return found


def zone_of(*values):
    one = Requirement("zone", "In", values)
    return NodeSelector((NodeSelectorTerm((one,)),))


def home(world, **fields):
    """A claim that is bound to a volume."""
    world.claim("home", **{"volume": "v", "is_bound": True, **fields})
    world.volume("v")
    return world


def two_nodes():
    return World().node("n0", labels={"zone": "a"}).node("n1", labels={"zone": "b"})


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({}, {}),
        ({"is_lost": True}, 'persistentvolumeclaim "home" bound to non-existent persistentvolume "v"'),
        ({"is_terminating": True}, 'persistentvolumeclaim "home" is being deleted'),
        ({"is_bound": False}, "pod has unbound immediate PersistentVolumeClaims"),
        ({"is_bound": False, "volume": ""}, "pod has unbound immediate PersistentVolumeClaims"),
        ({"volume": "none"}, 'persistentvolume "none" not found'),
        # It names a volume that is not its own yet.
        ({"is_bound": False, "storage_class": "waits"}, "pod has unbound immediate PersistentVolumeClaims"),
        ({"is_bound": False, "volume": "", "storage_class": "waits"}, {}),
        (
            {"is_bound": False, "volume": "", "storage_class": "cut"},
            'the topologies of storageclass "cut" are more than the history keeps (8 KiB)',
        ),
    ],
)  # fmt: skip
def test_a_pod_waits_for_its_claim(fields, want):
    world = home(two_nodes(), **fields)
    world.storage(StorageClassObserved, "waits", provisioner="p", waits_for_consumer=True)
    world.storage(
        StorageClassObserved, "cut", provisioner="p", waits_for_consumer=True, is_cut=True
    )

    assert want == answer(world.cycle(**claiming("home")))


def topology(*zones):
    one = TopologyTerm((TopologyRequirement("zone", zones),)) if zones else TopologyTerm()
    return {"allowed_topologies": (one,)}


@pytest.mark.parametrize(
    ("of_class", "of_claim", "refused"),
    [
        ({}, {}, ""),
        ({"provisioner": ""}, {}, "n0 n1"),
        ({"provisioner": "kubernetes.io/no-provisioner"}, {}, "n0 n1"),
        (topology("a", "c"), {}, "n1"),
        (topology(), {}, "n0 n1"),
        ({}, {"selected_node": "n1"}, "n0"),
        # She may write what she likes.
        ({}, {"selected_node": "none"}, "n0 n1"),
        (topology("a"), {"selected_node": "n1"}, "n0 n1"),
    ],
)
def test_a_volume_is_made_where_its_class_allows_it(of_class, of_claim, refused):
    world = two_nodes()
    world.storage(StorageClassObserved, "waits", **{"provisioner": "p", "waits_for_consumer": True} | of_class)  # fmt: skip
    world.claim("home", storage_class="waits", **of_claim)
    why = {"node(s) didn't find available persistent volumes to bind"}

    assert dict.fromkeys(refused.split(), why) == answer(world.cycle(**claiming("home")))


def test_two_pods_of_a_claim_whose_volume_is_to_be_made_have_one_node():
    world = two_nodes()
    world.storage(StorageClassObserved, "waits", provisioner="p", waits_for_consumer=True)
    world.claim("home", storage_class="waits")
    first = world.pod("first", **claiming("home"))
    world.columns.place(first, "n1", ())
    cycle = Cycle(world.pod("p", **claiming("home")), world.context)

    assert list(answer(cycle)) == ["n0"]


@pytest.mark.parametrize(
    ("of_volume", "is_candidate"),
    [
        ({}, True),
        ({"capacity_bytes": 4}, False),
        ({"phase": "Released"}, False),
        ({"is_block": True}, False),
        ({"access_modes": ("ReadOnlyMany",)}, False),
        ({"storage_class": "other"}, False),
        ({"is_terminating": True}, False),
        ({"claim_namespace": "ns", "claim_name": "home", "phase": "Pending"}, True),
        ({"claim_namespace": "other", "claim_name": "home"}, False),
        ({"claim_namespace": "ns", "claim_name": "home", "claim_uid": "u"}, False),
    ],
)
def test_a_volume_that_exists_is_bound_by_kube_scheduler(of_volume, is_candidate):
    world = two_nodes()
    world.storage(StorageClassObserved, "waits", provisioner="p", waits_for_consumer=True)
    modes = ("ReadWriteOnce",)
    world.claim("home", storage_class="waits", requested_bytes=5, access_modes=modes)
    fields = {"storage_class": "waits", "capacity_bytes": 5, "phase": "Available"}
    world.columns.volumes.waits(world.state.claims["claim-home"])
    world.volume("v", **fields | {"access_modes": modes} | of_volume)
    wait = (
        'persistentvolumeclaim "home" may be bound to the persistentvolume "v" that exists, '
        "which kube-scheduler alone does"
    )

    assert answer(world.cycle(**claiming("home"))) == (wait if is_candidate else {})
    world.volume("v", **fields | {"claim_uid": "u", "claim_name": "x", "claim_namespace": "ns"})
    assert answer(Cycle(world.state.pods["p"], world.context)) == {}


def test_a_claim_that_selects_volumes_by_labels_is_left_to_kube_scheduler():
    """No provisioner makes a volume for one, and labels of volumes are not in the history."""
    world = two_nodes()
    world.storage(StorageClassObserved, "waits", provisioner="p", waits_for_consumer=True)
    world.claim("home", storage_class="waits", has_selector=True)

    assert answer(world.cycle(**claiming("home"))) == (
        'persistentvolumeclaim "home" selects volumes by their labels, which kube-scheduler alone does'
    )


def test_a_claim_of_another_namespace_is_none():
    world = home(two_nodes(), namespace="other")

    assert answer(world.cycle(**claiming("home"))) == 'persistentvolumeclaim "home" not found'


@pytest.mark.parametrize(
    ("owner", "want"),
    [
        ("p", {}),
        ("q", "PVC ns/home was not created for pod ns/p (pod is not owner)"),
        ("", "PVC ns/home was not created for pod ns/p (pod is not owner)"),
    ],
)
def test_a_claim_of_an_ephemeral_volume_is_of_the_pod(owner, want):
    world = home(two_nodes(), owner=owner)

    assert want == answer(world.cycle(**claiming("home", ephemeral=("home",))))


def test_an_ephemeral_volume_waits_for_its_claim():
    want = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "home"'

    assert want == answer(two_nodes().cycle(**claiming("home", ephemeral=("home",))))


def test_a_volume_whose_node_affinity_is_not_known_is_waited_for():
    world = home(two_nodes())
    world.volume("v", is_cut=True)
    want = 'the node affinity of persistentvolume "v" is more than the history keeps (8 KiB)'

    assert want == answer(world.cycle(**claiming("home")))


def test_disks_of_plugins_in_the_tree_count_for_their_csi_driver():
    world = two_nodes()
    world.storage(CsiNodeObserved, "n0", limits={"ebs.csi.aws.com": 1})
    for number in range(2):
        world.claim(f"c{number}", volume=f"v{number}", is_bound=True)
        world.volume(f"v{number}", driver="kubernetes.io/aws-ebs")

    assert {"n0": {FULL}} == answer(world.cycle(**claiming("c0", "c1")))
    assert {} == answer(world.cycle(**claiming("c0")))


@pytest.mark.parametrize("seed", range(60))
def test_random_worlds_are_as_the_oracle_says(seed):
    random, world, known = Random(seed), World(), {}
    for number, name in enumerate(NODES):
        make_node(random, world, known, name)
        if number:
            world.columns  # noqa: B018 - they follow from here on
    for name in VOLUMES:
        make_volume(random, world, known, name)
    for name in CLAIMS:
        make_claim(random, world, known, name)
    for _ in range(12):
        for _ in range(3):
            change(random, world, known)
        names = tuple(random.sample(CLAIMS, random.randint(1, 2)))
        cycle = Cycle(world.pod("p", **claiming(*names)), world.context)

        assert oracle(known, names) == answer(cycle)


def make_node(random, world, known, name):
    labels = {"zone": random.choice("ab")}
    if random.random() < 0.7:
        labels[random.choice((ZONE, OLD_ZONE))] = random.choice("ab")
    world.node(name, labels=labels)
    limits = {driver: random.randint(0, 3) for driver in ("d", "e") if random.random() < 0.7}
    world.storage(CsiNodeObserved, name, limits=limits)
    known[name] = (labels, limits)


def make_volume(random, world, known, name):
    zones = {}
    if random.random() < 0.4:
        zones[random.choice((ZONE, OLD_ZONE))] = random.choice(("a", "b", "a__b", "a__"))
    affinity = random.choice((None, None, ("a",), ("a", "b")))
    driver = random.choice(("d", "d", "e", ""))
    handle = random.choice((f"h-{name}", "shared")) if driver else ""
    selector = zone_of(*affinity) if affinity else None
    world.volume(name, zones=zones, driver=driver, handle=handle, node_affinity=selector)
    known[name] = (zones, affinity, driver, handle)


def make_claim(random, world, known, name):
    volume = random.choice((*VOLUMES, "v4")) if random.random() < 0.95 else ""
    modes = ("ReadWriteOncePod",) if random.random() < 0.3 else ("ReadWriteMany",)
    world.claim(name, volume=volume, is_bound=bool(volume), access_modes=modes)
    known[name] = (volume, modes)


def change(random, world, known):
    does = random.randrange(6)
    held = sorted(name for name in known if name.startswith("held"))
    if does < 2:
        # A uid never comes back.
        known["made"] = known.get("made", 0) + 1
        uid, node = f"held{known['made']}", random.choice(NODES)
        names = random.sample((*CLAIMS, "none"), random.randint(0, 2))
        world.pod(uid, node, **claiming(*names))
        known[uid] = (node, names)
    elif does == 2 and held:
        uid = random.choice(held)
        del known[uid]
        world.gone(uid)
    elif does == 3:
        make_claim(random, world, known, random.choice(CLAIMS))
    elif does == 4:
        make_volume(random, world, known, random.choice(VOLUMES))
    else:
        make_node(random, world, known, random.choice(NODES))


def oracle(known, names):
    """By the text of kube-scheduler's plugins, object by object."""
    held = [one for name, one in known.items() if name.startswith("held")]
    if any(not known[name][0] for name in names):
        return "pod has unbound immediate PersistentVolumeClaims"
    for name in names:
        if known[name][0] not in known:
            return f'persistentvolume "{known[name][0]}" not found'
    used = {one for _, claims in held for one in claims}
    found = {}
    for node in NODES:
        why, (labels, limits) = set(), known[node]
        if any(name in used and "ReadWriteOncePod" in known[name][1] for name in names):
            why.add(IN_USE)
        attached = {one for where, claims in held if where == node for one in disks(known, claims)}
        more = disks(known, names) - attached
        for driver, limit in limits.items():
            new = sum(one[0] == driver for one in more)
            if new and new + sum(one[0] == driver for one in attached) > limit:
                why.add(FULL)
        for name in names:
            zones, affinity, *_ = known[known[name][0]]
            if affinity and labels["zone"] not in affinity:
                why.add(CONFLICT)
            if is_elsewhere(zones, labels):
                why.add(ZONES)
        if why:
            found[node] = why
    return found


def disks(known, claims):
    volumes = [known[known[name][0]] for name in claims if name in known and known[name][0] in known]  # fmt: skip
    return {(driver, handle) for _, _, driver, handle in volumes if driver}


def is_elsewhere(zones, labels):
    if ZONE not in labels and OLD_ZONE not in labels:
        return False
    for key, text in zones.items():
        values = text.split("__")
        if all(values) and labels.get(key, labels.get(ZONE)) not in values:
            return True
    return False
