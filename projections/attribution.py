"""Which quota does a pod belong to, and of which types is what it asks for, by the labels around it?

Each label is looked for by itself: on the top workload of the pod's owner chain, else on the pod, else on its
namespace (a mapping for all that is in it). ``biz.group.resource.quota``, wherever it stands, goes before
Koordinator's label, as at admission: nobody leaves the quota of his namespace by a label. A type counts only where a
quota is named.

Source: ``koordinator.md`` section 1 (labels of workloads) and 2.5; issue text "the namespace's mapping".
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.kinds import QUOTA_LABELS

_QUOTA, _CPU, _GPU, _MEMORY, _KOORDINATOR, _ = QUOTA_LABELS

#: What one object names: business quota, cpu type, GPU type, memory type, elastic quota; "" where it names none.
Names = tuple[str, str, str, str, str]

#: Quota, cpu type, GPU type, memory type.
Attribution = tuple[str, str, str, str]

NOTHING: Attribution = ("", "", "", "")


def names(labels: Mapping[str, str]) -> Names | None:
    """What an object's labels name; None for nothing."""
    if not labels:
        return None
    quota, cpu, gpu, memory, elastic = (
        labels.get(key, "") for key in (_QUOTA, _CPU, _GPU, _MEMORY, _KOORDINATOR)
    )
    found = (quota, cpu, gpu, memory, elastic)
    return found if any(found) else None


def attributed(*sources: Names | None) -> Attribution:
    """Each by the first of ``sources`` that names it; nothing where none names a quota."""
    named = [source for source in sources if source is not None]
    if not named:
        return NOTHING
    business, cpu, gpu, memory, elastic = (
        next(filter(None, place), "") for place in zip(*named, strict=True)
    )
    quota = business or elastic
    return (quota, cpu, gpu, memory) if quota else NOTHING
