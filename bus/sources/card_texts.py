"""Texts of card-sharing systems in annotations and labels: picked by name, as they were written.

Source: HAMi, Volcano, KAI-Scheduler and Koordinator, their documentation of pods and nodes; docs/devices.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import msgspec

from bus.amounts import PodResources
from bus.events.devices import ALLOCATED, COUNTED

if TYPE_CHECKING:
    from bus.kube.watch.labels import LabelPolicy

#: By HAMi, Volcano vGPU, KAI and Koordinator.
POD_ANNOTATIONS = (
    ALLOCATED,
    "hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new",
    "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices",
)  # fmt: skip
NODE_ANNOTATIONS = ("hami.io/node-nvidia-register", "volcano.sh/node-vgpu-register")
#: By NVIDIA's GPU feature discovery, GKE and AMD's node labeller: how the cards of a node are divided.
NODE_LABELS = (
    "nvidia.com/gpu.memory", "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas",
    "nvidia.com/mig.strategy",
    "cloud.google.com/gke-gpu-partition-size", "cloud.google.com/gke-max-shared-clients-per-gpu",
    "amd.com/compute-memory-partition", "amd.com/compute-partition",
)  # fmt: skip
_MIG_LABEL = re.compile(r"nvidia\.com/mig-[0-9]{1,2}[cg][^/]{0,40}\.replicas")
#: KAI's label of the pods on one card; of those on several it is a prefix.
GROUP = "runai-gpu-group"

#: Longest published text; eight cards take 500 characters.
LONGEST = 4_096
#: Koordinator uses up to 250 characters for each device; a cut text is unreadable.
LONGEST_OF = {ALLOCATED: 16_384}
MOST_GROUPS = 16

_encode = msgspec.json.Encoder().encode
_resources = msgspec.json.Decoder(PodResources).decode


def of_pod(
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
    resources: bytes = b"",
    policy: LabelPolicy | None = None,
) -> dict[str, str]:
    """The texts about shared cards in a pod's annotations and labels, and the ``policy`` of its ``resources``;
    mostly nothing.

    ``resources``: a :class:`bus.amounts.PodResources`, as the pod's fact has it.
    """
    found = _picked(annotations, POD_ANNOTATIONS)
    if policy is not None and policy.accelerators:
        asked = _resources(resources)
        named = [one.requests for one in (*asked.containers, *asked.init_containers)]
        found |= _counted({name for one in named for name in one}, policy)
    for key in sorted(key for key in labels or () if key == GROUP or key.startswith(f"{GROUP}/"))[:MOST_GROUPS]:  # fmt: skip
        found[key] = labels[key]  # type: ignore[index]
    return found


def of_node(
    annotations: Mapping[str, str] | None,
    allocatable: Collection[str] = (),
    policy: LabelPolicy | None = None,
) -> dict[str, str]:
    """The texts about cards in a node's annotations, and the ``policy`` of its ``allocatable``; mostly nothing."""
    return _picked(annotations, NODE_ANNOTATIONS) | _counted(allocatable, policy)


def of_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The texts about cards in a node's labels; mostly nothing."""
    return {name: text for name, text in labels.items() if is_node_label(name)}


def is_node_label(name: str) -> bool:
    """Whether the ledger reads a label of this name to size cards."""
    return name in NODE_LABELS or _MIG_LABEL.fullmatch(name) is not None


def _counted(names: Collection[str], policy: LabelPolicy | None) -> dict[str, str]:
    accelerators = policy.accelerators if policy is not None else ()
    found = {name: one for name, one in accelerators if name in names}
    return {COUNTED: _encode(found).decode()} if found else {}


def _picked(texts: Mapping[str, str] | None, names: tuple[str, ...]) -> dict[str, str]:
    if not texts:
        return {}
    return {name: texts[name][: LONGEST_OF.get(name, LONGEST)] for name in names if name in texts}
