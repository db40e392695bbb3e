"""What the mutating webhook does to each kind that waits, and what starts it again: the patches, on objects as users write them."""

import msgspec
import pytest

from bus.kube import kinds
from bus.kube.kinds import GOVERNED, QUEUE_ANNOTATION, table
from reactors.effectors.release import object_path, started, stopped
from reactors.queue.hold import held
from reactors.webhook.registration import RegistrationSettings, mutating_configuration
from reactors.webhook.review import Answer, render
from tests.reactors.queue.jobs import patched
from tests.reactors.queue.waiting import SPECS, WAITING


@pytest.mark.parametrize("kind", WAITING, ids=lambda kind: kind.kind)
def test_what_is_held_waits_and_what_is_started_runs(kind):
    written = {"metadata": {"name": "w", "uid": "u"}, "spec": SPECS[kind.kind]}
    wanted = kinds.asked(kind, written).demand
    waits = patched(written, held(kind, written, "team"))

    ask = kinds.asked(kind, waits)
    assert (True, {}, wanted) == (ask.held, ask.demand, ask.wanted)
    assert "team" == waits["metadata"]["annotations"][QUEUE_ANNOTATION]
    runs = kinds.asked(kind, patched(waits, started(kind, "u")))
    assert (False, wanted) == (runs.held, runs.demand)


@pytest.mark.parametrize("kind", WAITING, ids=lambda kind: kind.kind)
def test_what_has_to_wait_again_is_held_by_a_merge_patch_on_its_uid(kind):
    patch = stopped(kind, "u", "team")
    whole = {"metadata": patch["metadata"], "spec": SPECS[kind.kind] | patch["spec"]}

    assert kinds.asked(kind, whole).held
    assert "u" == patch["metadata"]["uid"]


@pytest.mark.parametrize(
    ("spec", "suspends"),
    [
        ({"shutdownAfterJobFinishes": True}, True),
        ({"shutdownAfterJobFinishes": True, "clusterSelector": {}}, True),
        ({"shutdownAfterJobFinishes": True, "clusterSelector": {"ray.io/cluster": "c"}}, False),
        ({"shutdownAfterJobFinishes": False}, False),
        ({}, False),
    ],
)
def test_a_ray_job_that_kuberay_would_fail_for_being_suspended_is_not_held(spec, suspends):
    """Source: KubeRay, ``ValidateRayJobSpec``."""
    assert suspends == kinds.suspends(table.RAYJOB, {"spec": SPECS["RayJob"] | spec})


def test_annotations_that_are_there_stay():
    written = {"metadata": {"annotations": {"a/b": "c"}}, "spec": SPECS["Job"]}

    assert {"a/b": "c", QUEUE_ANNOTATION: "team"} == (
        patched(written, held(table.JOB, written, "team"))["metadata"]["annotations"]
    )


def test_an_object_is_found_in_its_namespace():
    assert "/apis/batch/v1/namespaces/ns/jobs/w" == object_path(table.JOB, "ns", "w")


def test_a_patch_travels_in_base64_and_says_what_it_is():
    said = msgspec.json.decode(render("r", Answer(True, patch=b"[]")))["response"]

    assert {"uid": "r", "allowed": True, "patch": "W10=", "patchType": "JSONPatch"} == said


def test_only_creates_of_what_can_wait_are_asked_about_and_nothing_fails_without_us():
    (webhook,) = mutating_configuration(RegistrationSettings("bursar"), GOVERNED, b"")["webhooks"]

    assert ("Ignore", "Never", "None") == (
        webhook["failurePolicy"], webhook["reinvocationPolicy"], webhook["sideEffects"],
    )  # fmt: skip
    assert "/mutate" == webhook["clientConfig"]["service"]["path"]
    assert [["CREATE"]] * len(WAITING) == [rule["operations"] for rule in webhook["rules"]]
    asked = [resource for rule in webhook["rules"] for resource in rule["resources"]]
    assert [kind.resource for kind in WAITING] == asked
