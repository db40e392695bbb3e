"""What a TrainJob asks for with its training runtime: as much as the JobSet that Kubeflow Trainer makes of both.

Source: Kubeflow Trainer v2.2: ``pkg/runtime/core/trainingruntime_test.go``, ``manifests/base/runtimes``.
"""

import msgspec
import pytest

from bus.errors import DemandError
from bus.events.runtimes import RuntimeUse
from bus.kube import kinds
from bus.kube.kinds import table
from bus.kube.kinds.runtimes import as_before, template_of, with_runtime
from bus.kube.kinds.templates import RUNTIME
from tests.bus.kube.runtimes import container, job, runtime


def train_job(**spec):
    return {"metadata": {}, "spec": {"runtimeRef": {"name": "r"}, **spec}}


def asked(template, object):
    return with_runtime(kinds.asked(table.TRAINJOB, object), template_of(template))


def cores(ask):
    return ask.pods, ask.demand.get("requests.cpu", 0) // 1000, ask.demand.get("limits.nvidia.com/gpu", 0)  # fmt: skip


TORCH = runtime(job("node", container("node", "2", 1), step="trainer"), policy={"numNodes": 3, "torch": {}})  # fmt: skip
FINE_TUNE = runtime(
    job("dataset-initializer", container("dataset-initializer", "1"), step="dataset-initializer", replicas=4),
    job("model-initializer", container("model-initializer", "1"), step="model-initializer"),
    job("node", container("node"), step="trainer", parallelism=9),
    policy={"numNodes": 1, "torch": {}},
)  # fmt: skip
MPI = runtime(
    job("launcher", container("launcher", "1"), labels={"a": "b"}),
    job("node", container("node", "4"), labels={"a": "b"}, parallelism=2),
    policy={"numNodes": 1, "mpi": {"runLauncherAsNode": False}},
)
TRAINING_LAUNCHER = runtime(
    job("launcher", container("launcher", "1"), step="trainer"),
    job("node", container("node", "1"), labels={"a": "b"}),
    policy={"numNodes": 1, "mpi": {"runLauncherAsNode": True}},
)
EIGHT = {"requests": {"cpu": "8"}, "limits": {"cpu": "8", "nvidia.com/gpu": "4"}}

SIZES = {
    "the nodes of its runtime": (TORCH, {}, (3, 6, 3)),
    "nodes of its own": (TORCH, {"trainer": {"numNodes": 5}}, (5, 10, 5)),
    "no nodes": (TORCH, {"trainer": {"numNodes": 0}}, (0, 0, 0)),
    "resources of its own": (TORCH, {"trainer": {"resourcesPerNode": EIGHT}}, (3, 24, 12)),
    "empty resources are the runtime's": (TORCH, {"trainer": {"resourcesPerNode": {}}}, (3, 6, 3)),
    "a runtime without a policy has as many as its job": (
        runtime(job("node", container("node", "1"), step="trainer", parallelism=4)), {}, (4, 4, 0)),
    "a policy without nodes is one node": (
        runtime(job("node", container("node", "1"), step="trainer", parallelism=4), policy={}), {}, (1, 1, 0)),
    "every step once, however often the runtime says": (
        FINE_TUNE, {"trainer": {"numNodes": 2, "resourcesPerNode": EIGHT}}, (4, 18, 8)),
    "of MPI the nodes and a launcher": (MPI, {"trainer": {"numNodes": 6}}, (7, 25, 0)),
    "a launcher that does not train keeps its resources": (
        MPI, {"trainer": {"resourcesPerNode": EIGHT}}, (3, 17, 8)),
    "a launcher that trains is one of the nodes": (
        TRAINING_LAUNCHER, {"trainer": {"numNodes": 4, "resourcesPerNode": EIGHT}}, (4, 32, 16)),
    "a launcher that trains alone has a node beside it": (
        TRAINING_LAUNCHER, {"trainer": {"numNodes": 1}}, (2, 2, 0)),
    "a job without labels keeps its resources": (
        runtime(job("node", container("node", "1"))), {"trainer": {"resourcesPerNode": EIGHT}}, (1, 1, 0)),
    "other jobs are as many as the runtime says": (
        runtime(job("extra", container("x", "1"), replicas=3, parallelism=2)), {}, (6, 6, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("template", "spec", "expected"), SIZES.values(), ids=SIZES)
def test_a_train_job_asks_for_what_its_job_set_will(template, spec, expected):
    assert cores(asked(template, train_job(**spec))) == expected


def test_until_its_runtime_is_known_it_asks_for_what_nobody_knows():
    ask = kinds.asked(table.TRAINJOB, train_job(trainer={"numNodes": 2}))

    assert ask.demand == {f"{RUNTIME}ClusterTrainingRuntime/r": 1}
    assert ask.runtime == RuntimeUse("ClusterTrainingRuntime", "r", 2)


def test_a_suspended_one_wants_it_and_an_ended_one_asks_for_nothing():
    waits = asked(TORCH, train_job(suspend=True))
    ended = {**train_job(), "status": {"conditions": [{"type": "Complete", "status": "True"}]}}

    assert (waits.demand, waits.pods, waits.wanted["requests.cpu"]) == ({}, 0, 6000)
    assert asked(TORCH, ended).demand == asked(TORCH, ended).wanted == {}


def test_nothing_of_a_template_is_kept_but_what_its_pods_ask_for():
    written = repr(template_of(TORCH))

    assert "canary" not in written and "nvidia.com/gpu" in written


def test_a_runtime_that_changes_later_changes_nothing_of_a_job_that_has_asked():
    before = asked(TORCH, train_job(suspend=True))
    after = as_before(kinds.asked(table.TRAINJOB, train_job()), before)

    assert cores(after) == (3, 6, 3) and after.wanted == {}


def test_an_ask_of_another_kind_is_written_as_before_there_were_runtimes():
    """Rows of a ledger hold asks: written otherwise, an older release that runs beside this one would not have the same."""
    assert "runtime" not in msgspec.json.decode(msgspec.json.encode(kinds.Ask()))


def test_containers_without_limits_are_named():
    found = asked(FINE_TUNE, train_job())

    assert found.unstated["limits.cpu"] == ("node",)


REFUSED = {
    "an API before 2.2": ({"podTemplateOverrides": [{}]}, "spec.podTemplateOverrides", "before 2.2"),
    "another API": ({"runtimeRef": {"name": "r", "apiGroup": "x.io"}}, "spec.runtimeRef.apiGroup", "not trainer"),
    "another kind": ({"runtimeRef": {"name": "r", "kind": "Other"}}, "spec.runtimeRef.kind", "neither"),
    "no name": ({"runtimeRef": {}}, "spec.runtimeRef.name", "missing"),
    "negative nodes": ({"trainer": {"numNodes": -1}}, "spec.trainer.numNodes", "negative"),
    "text for nodes": ({"trainer": {"numNodes": "2"}}, "spec.trainer.numNodes", "whole number"),
    "an amount that is none": (
        {"trainer": {"resourcesPerNode": {"limits": {"cpu": "x"}}}}, "spec.trainer.resourcesPerNode", ""),
    "resources that are none": ({"trainer": {"resourcesPerNode": 5}}, "spec.trainer.resourcesPerNode", ""),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "path", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_by_its_place(spec, path, reason):
    with pytest.raises(DemandError) as caught:
        kinds.asked(table.TRAINJOB, train_job(**spec))

    assert str(caught.value).startswith(path) or path in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [
        runtime(job("node", step="trainer")),
        runtime(*(job(f"j{n}", container("x")) for n in range(65))),
        runtime({"name": "a", "template": {"spec": {}}}),
        runtime(job("a", container("x"), parallelism=-1)),
        runtime(job("a", container("x"), step="x" * 64)),
        {"spec": {"template": {"spec": {"replicatedJobs": "x"}}}},
    ],
    ids=["no containers", "65 jobs", "no template", "negative", "a long step", "no list"],
)
def test_a_runtime_that_cannot_be_read_is_none(broken):
    with pytest.raises(DemandError):
        template_of(broken)
