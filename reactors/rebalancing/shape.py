"""Values of rebalancing: moves, refused pods, and the result of a round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from projections.cluster import Pod

#: Why a pod is not moved, as a token.
RefusalCode = Literal[
    "ending", "bare-pod", "daemonset", "mirror-pod", "excluded-namespace", "critical-priority", "opted-out", "gang",
    "workload-kind", "single-replica", "unsettled-workload", "disruption-budget", "most-moves", "most-per-node",
    "most-per-namespace", "most-of-workload", "fits-nowhere", "put-back", "unmeasured-pod", "destination-overused",
    "destination-duplicates", "destination-underused",
]  # fmt: skip


class Refusal(msgspec.Struct, frozen=True):
    """Why a pod is not moved: a token, and a sentence with its numbers."""

    code: RefusalCode
    message: str


#: Checks the scheduler's choice of a node for a pod: a refusal, or None where the plugin accepts it.
Accepts = Callable[[str], Refusal | None]


class Move(msgspec.Struct, frozen=True):
    """A planned move. ``gain``: its effect. ``gpu_milli_s``: GPU time since its start; the pod may have to repeat it."""

    pod: Pod
    workload: str
    source: str
    destination: str
    plugin: str
    reason: str
    gain: str
    ran_s: int
    gpu_milli_s: int


class RefusedMove(msgspec.Struct, frozen=True):
    """A pod proposed by a plugin and refused by the plan."""

    pod: Pod
    source: str
    plugin: str
    reason: str
    refusal: Refusal


class NodeUse(msgspec.Struct):
    """The measured use of a node; planned moves change it. Cpu in milli, memory in bytes, pods as a count.

    ``measured``: by uid the measured use of each pod.
    """

    name: str
    unschedulable: bool
    capacity: Mapping[str, int]
    used: dict[str, int]
    prod: dict[str, int]
    pods: tuple[Pod, ...]
    measured: Mapping[str, Mapping[str, int]]


class Outcome(msgspec.Struct, frozen=True):
    """The result of a round: planned moves in order, refused pods, and limits of the answer."""

    moves: tuple[Move, ...]
    refused: tuple[RefusedMove, ...]
    notes: tuple[str, ...]
