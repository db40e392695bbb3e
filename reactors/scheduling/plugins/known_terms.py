"""KnownTerms: a pod is placed only where all of its terms are known and can be looked at."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from projections.cluster import Pod


class KnownTerms(msgspec.Struct, frozen=True):
    """Keeps pods out of the queue that Bursar would place by guessing."""

    name: ClassVar[str] = "KnownTerms"
    is_local: ClassVar[bool] = True

    def pre_enqueue(self, pod: Pod) -> str:
        """What is not known of it."""
        if pod.unrequested is None:
            return "one of its requests cannot be read"
        found = pod.constraints
        if found is None:
            return ""
        if found.is_cut:
            return "its terms are more than the history keeps (8 KiB): not all of them are known"
        if found.unkept_labels:
            keys = ", ".join(found.unkept_labels)
            return f"its selectors name labels that are not kept: {keys}; add them to labels.keep"
        if found.has_resource_claims:
            return "it has resource claims, which kube-scheduler allocates"
        if found.claims:
            return "it has volume claims, which kube-scheduler binds"
        return ""
