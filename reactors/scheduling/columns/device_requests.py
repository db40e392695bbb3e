"""Names of device resources, and a pod's requests of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

Amounts = Mapping[str, int]

_KOORDINATOR = "koordinator.sh/"
#: The prefix in Koordinator 1.0.
_OLDER = "kubernetes.io/"
GPU, CORE, RATIO, MEMORY, SHARED = (
    _KOORDINATOR + name
    for name in ("gpu", "gpu-core", "gpu-memory-ratio", "gpu-memory", "gpu.shared")
)
RDMA, FPGA = _KOORDINATOR + "rdma", _KOORDINATOR + "fpga"
NVIDIA, AMD, HYGON = "nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu"
NPU_CORE, NPU_CPU, NPU_DVPP = ("huawei.com/npu-" + name for name in ("core", "cpu", "dvpp"))

#: Resource names of each kind of device.
KINDS: dict[str, tuple[str, ...]] = {
    "gpu": (NVIDIA, AMD, HYGON, GPU, SHARED, CORE, MEMORY, RATIO, NPU_CORE, NPU_CPU, NPU_DVPP),
    "rdma": (RDMA,),
    "fpga": (FPGA,),
}


def requested(demand: Amounts) -> dict[str, dict[str, int]]:
    """By kind of device the requests of a demand, in the newer names; requests of 0 are left out."""
    found: dict[str, dict[str, int]] = {}
    for key, amount in demand.items():
        prefix, _, name = key.partition(".")
        if prefix != "requests" or amount <= 0:
            continue
        if name.startswith(_OLDER):
            name = _KOORDINATOR + name.removeprefix(_OLDER)
        for kind, names in KINDS.items():
            if name in names:
                own = found.setdefault(kind, {})
                own[name] = own.get(name, 0) + amount
    return found
