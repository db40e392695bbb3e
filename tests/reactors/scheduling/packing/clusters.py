"""Small clusters of GPU nodes, and pods for them, in the units of the trace."""

from random import Random

from tests import factories as f
from tests.reactors.scheduling.terms import constrained
from tests.reactors.scheduling.worlds import World

MODEL = "alibabacloud.com/gpu-card-model"
#: Name, cores, GiB, cards, model.
NODES = [
    ("a", 16, 64, 2, "T4"), ("b", 32, 64, 4, "T4"), ("c", 96, 256, 8, "G2"), ("d", 8, 32, 1, "G2"), ("e", 64, 128, 8, "G3"),
]  # fmt: skip
#: Milli cores, MiB, hundredths of cards, models.
SHAPES = [
    (3_000, 5_000, 81, ()), (8_000, 16_000, 47, ()), (1_000, 2_000, 19, ()), (11_000, 32_000, 100, ()),
    (4_000, 8_000, 32, ("T4",)), (6_000, 8_000, 200, ("G2", "G3")), (40_000, 65_536, 800, ()), (12_000, 16_000, 0, ()),
]  # fmt: skip


def gpu_world(nodes=NODES):
    """A world of nodes that are in the order of their names."""
    world = World()
    for name, cores, memory, cards, model in nodes:
        allocatable = {
            "cpu": str(cores),
            "memory": f"{memory}Gi",
            "koordinator.sh/gpu-core": str(100 * cards),
        }
        world.node(name, allocatable=allocatable, model=model, labels={MODEL: model})  # fmt: skip
    return world


def gpu_pod(world, uid, shape):
    """A waiting pod of a shape."""
    cpu, memory, hundredths, models = shape
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    if hundredths:
        requests["koordinator.sh/gpu-core"] = str(hundredths)
    terms = constrained({"affinity": selecting(models)}) if models else {}
    return world.pod(uid, resources=f.requesting(requests), **terms)


def selecting(models):
    term = {"matchExpressions": [{"key": MODEL, "operator": "In", "values": list(models)}]}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def arrivals(count, seed=1):
    """Shapes by chance."""
    return Random(seed).choices(SHAPES, k=count)
