"""What is answered when nobody could decide in time."""

import pytest

from reactors.webhook.failure import UNAVAILABLE, closed_for
from reactors.webhook.review import parse
from tests.reactors.webhook.reviews import CHARGED, deployment, encoded


def scale(replicas):
    return {"kind": "Scale", "metadata": {"uid": "object-1"}, "spec": {"replicas": replicas}}


def update(new, old, **request):
    return {"operation": "UPDATE", "object": new, "oldObject": old, **request}


ASKS_FOR_MORE = {
    "a create": {},
    "a dry run of a create": {"dryRun": True},
    "an update of the spec": update(deployment(2), deployment(1)),
    "an update of the labels": update(deployment(labels={"quota": "b"}), deployment()),
    "an update whose old object is not told": update(deployment(), None),
    "a change of its controller": update(
        deployment(ownerReferences=[{"kind": "Rollout", "uid": "a", "controller": True}]),
        deployment(),
    ),
    "an orphan": update(
        deployment(),
        deployment(ownerReferences=[{"kind": "Rollout", "uid": "a", "controller": True}]),
    ),
    "a scale up": update(scale(3), scale(2), subResource="scale"),
}
ASKS_FOR_NO_MORE = {
    "a delete": {"operation": "DELETE", "object": None, "oldObject": deployment()},
    "an update of other metadata": update(deployment(finalizers=[]), deployment(finalizers=["a"])),
    "an update that leaves empty labels out": update(deployment(), deployment(labels={})),
    "a scale down": update(scale(2), scale(3), subResource="scale"),
    "a scale to nothing": update({"metadata": {}, "spec": {}}, scale(3), subResource="scale"),
    "a resource that is not charged": {
        "resource": {"group": "apps", "version": "v1", "resource": "daemonsets"}
    },
}


@pytest.mark.parametrize("request_", ASKS_FOR_MORE.values(), ids=ASKS_FOR_MORE)
def test_what_asks_for_more_of_a_charged_resource_is_denied(request_):
    answer = closed_for(CHARGED)(parse(encoded(**request_)), None)

    assert (False, UNAVAILABLE, 503) == (answer.allowed, answer.reason, answer.code)


@pytest.mark.parametrize("request_", ASKS_FOR_NO_MORE.values(), ids=ASKS_FOR_NO_MORE)
def test_everything_else_is_allowed_with_a_warning(request_):
    answer = closed_for(CHARGED)(parse(encoded(**request_)), RuntimeError())

    assert answer.allowed and answer.warnings


def test_an_error_is_told_apart_from_a_late_decision():
    failure, asked = closed_for(CHARGED), parse(encoded())

    assert failure(asked, None).message != failure(asked, RuntimeError("secret")).message
    assert "secret" not in failure(asked, RuntimeError("secret")).message


def notebook(**annotations):
    """A Notebook as Kubeflow has it."""
    container = {"name": "nb", "resources": {"limits": {"cpu": "1"}}}
    return {
        "metadata": {"name": "nb", "namespace": "team", "uid": "u", "annotations": annotations},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


def test_the_start_of_a_stopped_notebook_asks_for_more_and_its_other_annotations_do_not():
    of_notebook = {"resource": {"group": "kubeflow.org", "version": "v1", "resource": "notebooks"}}
    failure = closed_for([("kubeflow.org", "notebooks")])
    stopped = notebook(**{"kubeflow-resource-stopped": "2026-01-01T00:00:00Z"})
    started = parse(encoded(**update(notebook(), stopped), **of_notebook))
    noted = parse(encoded(**update(notebook(note="mine"), notebook()), **of_notebook))

    assert not failure(started, None).allowed
    assert failure(noted, None).allowed


def test_nothing_is_said_of_what_was_charged_as_nobody_knows():
    answer = closed_for(CHARGED)(parse(encoded()), None)

    assert "unknown, ask again" in answer.message
    assert "charged" not in answer.message
