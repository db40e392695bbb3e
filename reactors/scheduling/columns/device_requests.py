"""Names of device resources, and what a pod requests of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

Amounts = Mapping[str, int]

_KOORDINATOR = "koordinator.sh/"
#: The prefix that Koordinator 1.0 wrote.
_OLDER = "kubernetes.io/"
GPU, CORE, RATIO, MEMORY, SHARED = (
    _KOORDINATOR + name
    for name in ("gpu", "gpu-core", "gpu-memory-ratio", "gpu-memory", "gpu.shared")
)
RDMA, FPGA = _KOORDINATOR + "rdma", _KOORDINATOR + "fpga"
NVIDIA, AMD, HYGON = "nvidia.com/gpu", "amd.com/gpu", "dcu.com/gpu"
NPU_CORE, NPU_CPU, NPU_DVPP = ("huawei.com/npu-" + name for name in ("core", "cpu", "dvpp"))

#: What each kind of device is requested by.
KINDS: dict[str, tuple[str, ...]] = {
    "gpu": (NVIDIA, AMD, HYGON, GPU, SHARED, CORE, MEMORY, RATIO, NPU_CORE, NPU_CPU, NPU_DVPP),
    "rdma": (RDMA,),
    "fpga": (FPGA,),
}


def requested(demand: Amounts) -> dict[str, dict[str, int]]:
    """By kind of device: what the requests of a demand are, in the newer names; 0 is nothing."""
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
