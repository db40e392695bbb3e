"""Observations of an ended pod: the end by their stamps.

Source: docs/accounting.md, "The end by finishing".
"""

from __future__ import annotations

import msgspec

#: The started containers of a pod, by its observations: none, init containers alone, regular ones.
UNSTARTED, INIT, REGULAR = 0, 1, 2


class Finish(msgspec.Struct, frozen=True, gc=False, array_like=True, order=True):
    """An observation of phase Succeeded or Failed: its resourceVersion and time, and the end by its stamps.

    Microseconds; ``LATER`` where there is no such stamp. ``observed_us``: when it was observed, or its status was written before.
    ``finished_us``: the latest finish of containers, where each has one. ``init_us``: of init containers, where one
    failed. ``refused_us``: the kubelet's admission refused it then. ``disrupted_us``: the transition of DisruptionTarget, by the
    kubelet (``is_killed``) or by PodGC. ``proof_us``: the newest of its own stamps up to ``observed_us``; 0 for none.
    """

    version: str
    time_us: int
    observed_us: int
    listed: bool
    finished_us: int
    init_us: int
    refused_us: int
    disrupted_us: int
    is_killed: bool
    proof_us: int


#: After every possible stamp.
LATER = 2**62


class GoneRecord(msgspec.Struct, frozen=True, gc=False, array_like=True, order=True):
    """A DELETED record without the stamp of the delete: the time of its observation, and the newest of its own
    stamps up to then.
    """

    at_us: int
    proof_us: int
