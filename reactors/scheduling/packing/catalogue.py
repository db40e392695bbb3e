"""The packing policies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from reactors.scheduling.columns.arrivals import Lesson
from reactors.scheduling.columns.pod_shapes import typical_kinds
from reactors.scheduling.columns.table import Columns
from reactors.scheduling.packing.fragmentation import Fragmentation
from reactors.scheduling.packing.learned import Learned, LearnedPolicy, reachable
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

Name: TypeAlias = Literal[
    "Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FirstFit", "FGD", "Learned"
]


class Typical(msgspec.Struct, frozen=True):
    """A kind of pod and its part of all typical pods. ``models``: GPU models of nodes for it; none = any."""

    cpu_milli: int
    milli: int
    cards: int
    models: tuple[str, ...]
    part: float


class Given(msgspec.Struct, frozen=True):
    """The input of a policy: the newest lesson, typical pods in its place if set, and weights."""

    columns: Columns
    lesson: Lesson
    typical: Sequence[Typical] = ()
    learned: LearnedPolicy = LearnedPolicy()


def fragmentation(given: Given) -> Fragmentation:
    """Fragmentation by the typical pods."""
    columns = given.columns
    if given.typical:
        models = np.array([one.model for one in columns.nodes])
        anywhere = np.ones(models.size, np.bool_)
        rows = [
            np.isin(models, one.models) if one.models and one.cards else anywhere
            for one in given.typical
        ]
        typical = [((o.cpu_milli, o.milli, o.cards, o.models), o.part) for o in given.typical]
        return Fragmentation(columns, typical, np.array(rows, np.bool_))
    typical = typical_kinds(given.lesson.kinds)
    reached = reachable(columns, [kind for kind, _ in typical])
    return Fragmentation(columns, typical, reached)


POLICIES: Mapping[Name, Callable[[Given], Policy]] = {
    "Random": lambda given: Random(given.columns),
    "DotProd": lambda given: DotProd(given.columns),
    "GpuClustering": lambda given: GpuClustering(given.columns),
    "GpuPacking": lambda given: GpuPacking(given.columns),
    "BestFit": lambda given: BestFit(given.columns),
    "FirstFit": lambda given: FirstFit(given.columns),
    "FGD": lambda given: FragmentationGradient(given.columns, fragmentation(given)),
    "Learned": lambda given: Learned(given.columns, given.lesson, given.learned),
}
