"""The value of one observation of a pod: its charge, and for whom it is."""

from __future__ import annotations

from typing import NamedTuple

from projections.attribution import Names


class PodValue(NamedTuple):
    """What one observation of a pod charges, and for whom. ``extended``: other resources as JSON."""

    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    extended: str
    #: By the pod's labels.
    team: str | None
    user: str | None
    node: str | None
    #: The quotas that the pod's labels name.
    quotas: Names | None
