"""ImageLocality: nodes with the pod's images already on them.

An image counts its size, times its part of all nodes, so pods do not heap up on the first node with it. Unlike kube-scheduler,
with the first observed size for all, each node counts its own reported size.

Source: Kubernetes, "Scheduler Configuration", scheduling plugins.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

from projections.cluster import Pod
from reactors.scheduling.columns.table import Ints, Rows
from reactors.scheduling.framework.contract import HIGHEST, SKIP, Cycle, Status

_MIB = 2**20
#: Range of bytes: a smaller sum counts nothing, and a larger one for each container counts no more.
LEAST, MOST_EACH = 23 * _MIB, 1000 * _MIB


class ImageLocality(msgspec.Struct, frozen=True):
    """Scores nodes by their images."""

    name: ClassVar[str] = "ImageLocality"
    is_local: ClassVar[bool] = False

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status | None:
        """Only nodes with an image of the pod are scored."""
        columns, found = cycle.columns, []
        for image in _images(cycle.pod):
            sizes = columns.images.of(image, (one.images for one in columns.nodes))
            if (sizes >= 0).any():
                found.append(sizes)
        cycle.data[self.name] = found
        return None if found else SKIP

    def score(self, cycle: Cycle, rows: Rows) -> Ints:
        """The weight of its images on each node, 0 to 100."""
        total = np.zeros(cycle.columns.pods[rows].size, np.int64)
        for sizes in cycle.data[self.name]:
            # One product of two floats, as in Go: without a sum every machine has the same result.
            spread = int((sizes >= 0).sum()) / sizes.size
            total += (np.maximum(sizes[rows], 0) * spread).astype(np.int64)
        constraints = cycle.pod.constraints
        most = MOST_EACH * len(constraints.images if constraints else ())
        return (np.clip(total, LEAST, most) - LEAST) * HIGHEST // (most - LEAST)


def _images(pod: Pod) -> tuple[str, ...]:
    constraints = pod.constraints
    return constraints.images + constraints.volume_images if constraints else ()
