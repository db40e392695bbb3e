"""Reviews with defaults, as an API server writes them, and an application to send them to."""

import msgspec

from reactors.webhook import Answer, Application
from reactors.webhook.failure import closed_for

CHARGED = (("apps", "deployments"),)


def deployment(replicas=1, **metadata):
    """A Deployment that asks for so many replicas."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "service", "namespace": "team", "uid": "object-1", **metadata},
        "spec": {"replicas": replicas},
    }


def review(**request):
    """An AdmissionReview that creates a Deployment, but for what is given of its request."""
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    defaults = {
        "uid": "review-1",
        "kind": kind,
        "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
        "name": "service",
        "namespace": "team",
        "operation": "CREATE",
        "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
        "object": deployment(),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions"},
    }
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {**defaults, **request},
    }


def encoded(**request):
    """The bytes of :func:`review`."""
    return msgspec.json.encode(review(**request))


def application(handler=None, **options):
    """An application around a handler that allows everything unless another is given."""
    return Application(handler or allow, closed_for(CHARGED), **options)


async def allow(asked):
    return Answer(True)
