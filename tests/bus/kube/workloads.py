"""Objects of workloads as tests write them, and what is refused of one."""

import copy

import pytest

from bus.errors import DemandError
from bus.kube import kinds
from bus.kube.kinds import table

BIG = 2**63 - 1


def template(cpu="1", labels=None, **more):
    """A pod template of one container that asks for ``cpu``."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    return {"metadata": {"labels": labels or {}}, "spec": {"containers": containers, **more}}


def deployment(replicas=1, cpu="1", **metadata):
    return {"metadata": metadata, "spec": {"replicas": replicas, "template": template(cpu)}}


def of_pod(*containers, **spec):
    """The demand of a plain pod."""
    return kinds.asked(table.POD, {"spec": {"containers": list(containers), **spec}}).demand


def refused(kind, object):
    """Path and reason of the refusal."""
    with pytest.raises(DemandError) as error:
        kinds.asked(kind, object)
    return error.value.path, error.value.reason


def with_values(path, value, object):
    """A copy of ``object`` with ``value`` at ``path``."""
    changed = copy.deepcopy(object)
    *way, last = path.split(".")
    inner = changed
    for step in way:
        inner = inner[int(step) if step.isdigit() else step]
    inner[last] = value
    return changed


ROLES = {"A": {"replicas": 2, "template": template("1")}, "B": {"template": template("4")}}


def both(**amounts):
    return {f"{part}.{n}": v for n, v in amounts.items() for part in ("requests", "limits")}
