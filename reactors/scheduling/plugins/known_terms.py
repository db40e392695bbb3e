"""KnownTerms: a pod is placed only if all of its terms are known and supported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from projections.cluster import Pod
from reactors.scheduling.framework.context import PluginContext


class KnownTerms(msgspec.Struct, frozen=True):
    """Keeps pods with unknown terms out of the queue: their placement would be a guess."""

    name: ClassVar[str] = "KnownTerms"
    is_local: ClassVar[bool] = True

    def pre_enqueue(self, pod: Pod, context: PluginContext) -> str:
        """Its first unknown term."""
        return next(_unknown(pod), "")


def _unknown(pod: Pod) -> Iterator[str]:
    if pod.unrequested is None:
        yield "one of its requests cannot be read"
    found = pod.constraints
    if found is None:
        return
    if found.is_cut:
        yield "its terms are more than the history keeps (8 KiB): not all of them are known"
    if found.unkept_labels:
        keys = ", ".join(found.unkept_labels)
        yield f"its selectors name labels that are not kept: {keys}; add them to labels.keep"
    if found.has_resource_claims:
        yield "it has resource claims, whose devices kube-scheduler allocates"
    if found.disks:
        yield f"it names disks, which kube-scheduler keeps apart: {', '.join(found.disks)}"
