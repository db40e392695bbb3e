"""ImageLocality: random nodes and pods against kube-scheduler's rule in plain Python."""

from random import Random

import pytest

from bus.sources.images import ContainerImage, image_key, images_of
from reactors.scheduling.framework.contract import Code
from reactors.scheduling.plugins.image_locality import ImageLocality
from tests.reactors.scheduling.terms import constrained
from tests.reactors.scheduling.worlds import World, scores

MIB = 2**20
NAMES = ("a:1", "b:latest", "r.io:5000/c:latest", "d@sha256:0f", "e:2")


def world_of(images):
    world = World()
    for number, has in enumerate(images):
        listed = [ContainerImage([name], size) for name, size in has.items()]
        world.node(f"n{number}", images=images_of(listed))
    return world


def asking(containers, volumes=()):
    keys = {"images": list(map(image_key, containers))}
    return constrained(keys | {"volumeImages": list(map(image_key, volumes))})


def plainly(images, containers, volumes):
    """By node: what kube-scheduler's own text says."""
    found = {}
    for number, has in enumerate(images):
        total = 0
        for name in (*containers, *volumes):
            name = name if name.rfind(":") > name.rfind("/") else name + ":latest"
            if name in has:
                total += int(float(has[name]) * (sum(name in one for one in images) / len(images)))
        most = 1000 * MIB * len(containers)
        total = min(max(total, 23 * MIB), most)
        found[f"n{number}"] = 100 * (total - 23 * MIB) // (most - 23 * MIB)
    return found


@pytest.mark.parametrize("seed", range(25))
def test_nodes_are_scored_as_the_oracle_says(seed):
    random = Random(seed)
    images = [
        {name: random.randint(0, 2500 * MIB) for name in NAMES if random.random() < 0.5}
        for _ in range(random.randint(1, 5))
    ]
    names = ("a:1", "b", "r.io:5000/c", "d@sha256:0f", "absent")
    containers = random.choices(names, k=random.randint(1, 3))
    volumes = random.sample(names, k=random.randint(0, 1))
    cycle = world_of(images).cycle(**asking(containers, volumes))
    plugin, expected = ImageLocality(), plainly(images, containers, volumes)

    if plugin.pre_score(cycle, slice(None)) is None:
        assert scores(plugin, cycle) == expected
    else:
        assert not any(expected.values())


def test_what_a_node_pulled_counts_from_its_next_fact_on():
    world = world_of([{}, {"a:1": 900 * MIB}])
    plugin, cycle = ImageLocality(), world.cycle(**asking(["a:1"]))
    plugin.pre_score(cycle, slice(None))
    before = scores(plugin, cycle)
    world.node("n0", images=images_of([ContainerImage(["a:1"], 900 * MIB)]))
    plugin.pre_score(cycle, slice(None))

    assert before == {"n0": 0, "n1": 43}
    assert scores(plugin, cycle) == {"n0": 89, "n1": 89}


def test_a_pod_of_images_that_no_node_has_scores_none():
    cycle = world_of([{"a:1": MIB}]).cycle(**asking(["b"]))

    assert ImageLocality().pre_score(cycle, slice(None)).code is Code.SKIP
