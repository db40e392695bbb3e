"""The packing policies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from reactors.scheduling.packing.fragmentation import Fragmentation, Typical
from reactors.scheduling.packing.learned import Learned
from reactors.scheduling.packing.machines import Machines
from reactors.scheduling.packing.policies import (
    BestFit,
    DotProd,
    FirstFit,
    FragmentationGradient,
    GpuClustering,
    GpuPacking,
    Policy,
    Random,
)


class Given(msgspec.Struct, frozen=True):
    """What a policy may be told before the first pod: FGD the typical pods of the whole trace, Random a seed."""

    machines: Machines
    typical: Sequence[Typical] = ()
    seed: int = 0


POLICIES: Mapping[str, Callable[[Given], Policy]] = {
    Random.name: lambda given: Random(given.machines, given.seed),
    DotProd.name: lambda given: DotProd(given.machines),
    GpuClustering.name: lambda given: GpuClustering(given.machines),
    GpuPacking.name: lambda given: GpuPacking(given.machines),
    BestFit.name: lambda given: BestFit(given.machines),
    FirstFit.name: lambda given: FirstFit(given.machines),
    FragmentationGradient.name: lambda given: FragmentationGradient(
        given.machines, Fragmentation(given.machines, given.typical)
    ),
    Learned.name: lambda given: Learned(given.machines),
}
