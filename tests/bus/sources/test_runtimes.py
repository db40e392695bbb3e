"""Training runtimes: what of their templates becomes the fact."""

import pytest

from bus.errors import ObservationError
from bus.events.runtimes import TrainingRuntimeObserved, TrainingRuntimeVanished
from bus.sources.catalogue import TRAINING_RUNTIMES
from tests.bus.kube.runtimes import container, job, runtime
from tests.bus.sources.records import POLICY, record

NAMESPACED, CLUSTER = TRAINING_RUNTIMES
METADATA = {"uid": "u", "name": "torch", "resourceVersion": "7"}


def seen(source, item, change="MODIFIED", **metadata):
    return source.translate(record({**item, "metadata": METADATA | metadata}, change), POLICY)


def test_a_runtime_says_what_its_pods_ask_for_and_nothing_else():
    policy = {"numNodes": 3, "mpi": {"runLauncherAsNode": True}}
    node = job("node", container("node", "2", 1), step="trainer")
    event = seen(CLUSTER, runtime(node, policy=policy))
    fact = TrainingRuntimeObserved.read(event)
    template = fact.template

    assert (fact.kind, fact.namespace, fact.name) == ("ClusterTrainingRuntime", "", "torch")
    assert (template.nodes, template.is_mpi, template.launcher_trains) == (3, True, True)
    assert [(one.name, one.step, one.pods) for one in template.jobs] == [("node", "trainer", 1)]
    assert b"canary" not in event.body and b"nvidia.com/gpu" in event.body


def test_a_deleted_one_is_gone_and_one_of_a_namespace_names_it():
    gone = TrainingRuntimeVanished.read(seen(NAMESPACED, runtime(), "DELETED", namespace="ns"))

    assert (gone.kind, gone.namespace, gone.uid) == ("TrainingRuntime", "ns", "u")
    with pytest.raises(ObservationError):
        seen(NAMESPACED, runtime())


@pytest.mark.parametrize(
    "item",
    [
        runtime(job("node", container("node", "2", 1), parallelism="x")),
        runtime(*(job(f"j{n}", *(container(f"{n}-{m}", "1") for m in range(64))) for n in range(64))),
    ],
    ids=["unreadable", "a megabyte"],
)  # fmt: skip
def test_what_cannot_be_read_or_is_too_large_is_there_without_its_template(item):
    assert TrainingRuntimeObserved.read(seen(CLUSTER, item)).template is None
