"""The installations that `bursar manifests` can print: every size and mode, with all that Bursar may do and with nothing."""

import itertools
from functools import cache

from deploy.commands.installation import Act, Mode, Size, installation

ALL_ACTS = tuple(Act)
CASES = [
    *itertools.product(Size, [Mode.WATCH, Mode.SHADOW], [()]),
    *itertools.product(Size, [Mode.ENFORCE], [(), ALL_ACTS]),
]


@cache
def objects(size=Size.SMALL, mode=Mode.WATCH, acts=(), image="bursar:1"):
    """With everything that Bursar may do it has the floor and the API, too."""
    found = installation(size, mode, acts, image, floor=acts == ALL_ACTS, api=acts == ALL_ACTS)
    return [one.object for one in found]


def workloads(*arguments):
    return [one for one in objects(*arguments) if one["kind"] in ("StatefulSet", "Deployment")]


def pod(workload):
    return workload["spec"]["template"]["spec"]
