"""Parts of the cluster without a row in the ledger: objects with refused records, and unreadable GPUs of claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Sources needed to know the devices of a claim.
_OF_DEVICES = ("resourceclaims", "resourceslices")


def unread(sources: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every refused object of each source's newest list, by source and name; those beyond the first hundred as one row."""
    found = []
    for source, state in sorted(sources.items()):
        named: Mapping[str, str] = state.get("unread") or {}
        found += [
            {"source": source, "object": name, "reason": reason}
            for name, reason in sorted(named.items())
        ]
        others = state.get("unread_count", 0) - len(named)
        if others > 0:
            found.append({"source": source, "object": f"{others:,} more", "reason": ""})
    return found


def unread_lines(found: list[dict[str, Any]]) -> list[str] | str:
    """The same for people."""
    return [
        f"{row['source']} {row['object']}" + (f": {row['reason']}" if row["reason"] else "")
        for row in found
    ] or "none"


def devices_unread(sources: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The reasons why GPUs allocated by claim may be missing: each unreadable source of them."""
    found = [(name, sources.get(name, {}).get("trouble")) for name in _OF_DEVICES]
    return [
        f"{name}: {trouble}; GPUs that are given out by claim may be missing (flag claim_unseen)"
        for name, trouble in found
        if trouble
    ]
