"""The top of a quota tree for a part of the nodes: Koordinator's ElasticQuotaProfile.

Pure. Whoever selects the nodes asks again every 10 s, as upstream does, and hands the total of the
tree to a tree of quotas of its own; the default tree's total is less by it, unless the quota's
label `ignore-default-tree` says otherwise.
Source: Koordinator `profile_controller.go`; `koordinator.md` section 2.9.
"""

from __future__ import annotations

from projections.elastic.shape import Quota, Resources

_UNLIMITED = (2**63 - 1) // 2000
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


def tree_id(namespace: str, name: str) -> str:
    """The id of a profile's tree: the hash of "namespace/name", in decimal."""
    return str(fnv1a_64(f"{namespace}/{name}".encode()))


def fnv1a_64(content: bytes) -> int:
    """FNV-1a of 64 bits, Go's `fnv.New64a`."""
    value = _FNV_OFFSET
    for byte in content:
        value = (value ^ byte) * _FNV_PRIME % 2**64
    return value


def tree_total(allocatable: Resources, ratio: float = 1.0) -> dict[str, int]:
    """A tree's total: its part of what the selected nodes have, each key truncated.

    A ratio that is not above 0 and at most 1 counts as 1. Doubles, as upstream.
    """
    part = ratio if 0 < ratio <= 1 else 1.0
    return {key: int(float(value) * part) for key, value in allocatable.items()}


def tree_root(
    name: str, tree: str, total: Resources, keys: tuple[str, ...] = ("cpu", "memory")
) -> Quota:
    """The quota at the top of a tree: min is the total of these keys, max in effect none."""
    return Quota(
        name=name,
        max={key: _UNLIMITED * (1000 if key == "cpu" else 1) for key in keys},
        min={key: total.get(key, 0) for key in keys},
        is_parent=True,
        tree_id=tree,
        tree_root=True,
    )
