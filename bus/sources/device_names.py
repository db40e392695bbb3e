"""A pod's device claims, and its extended resources backed by a claim. Pure.

Source: Kubernetes API reference, core/v1 PodStatus; docs/devices.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bus.kube.watch import records
from bus.kube.watch.labels import LONGEST_KEY
from bus.kube.watch.records import LONGEST_NAME
from bus.sources.constraints import PodClaim

#: Most claims of one pod in a fact.
MOST_CLAIMS = 64


class RequestMapping(msgspec.Struct, rename="camel"):
    """An entry of ``requestMappings``."""

    resource_name: str = ""


class ExtendedClaim(msgspec.Struct, rename="camel"):
    """``status.extendedResourceClaimStatus``."""

    resource_claim_name: str = ""
    request_mappings: list[RequestMapping] | None = None


def claim_names(
    named: Iterable[PodClaim] | None,
    made: Iterable[PodClaim] | None,
    extended: ExtendedClaim | None,
) -> tuple[str, ...]:
    """Names of a pod's claims, each once, sorted: those in its spec, those made for it, and the one for its
    extended resources.
    """
    if not (named or made or extended):
        return ()
    names = {one.resource_claim_name for one in (*(named or ()), *(made or ()))}
    if extended:
        names.add(extended.resource_claim_name)
    return tuple(sorted(name for name in names if name and records.usable(name, LONGEST_NAME)))[:MOST_CLAIMS]  # fmt: skip


def claim_templates(named: Iterable[PodClaim] | None) -> tuple[str, ...]:
    """The templates of a pod's claims, one name for each claim, sorted."""
    names = (one.resource_claim_template_name for one in named or ())
    return tuple(sorted(name for name in names if name and records.usable(name, LONGEST_NAME)))[:MOST_CLAIMS]  # fmt: skip


def claimed(extended: ExtendedClaim | None) -> tuple[str, ...]:
    """Extended resources backed by a claim, sorted."""
    names = {one.resource_name for one in (extended.request_mappings if extended else None) or ()}
    return tuple(sorted(name for name in names if records.usable(name, LONGEST_KEY)))[:MOST_CLAIMS]
