"""The valid mins of children with a parent smaller than their sum.

Pure. Source: Koordinator `scale_minquota_when_over_root_res.go`; docs/quotas.md. Upstream scales a quota when it is
refreshed and its siblings later; here all are scaled at once, the final state of upstream.
"""

from __future__ import annotations

from collections.abc import Container, Mapping


def scaled_mins(total: int, mins: Mapping[str, int], fixed: Container[str] = ()) -> dict[str, int]:
    """Min of one resource by child: as it is if all fit into the total, else in proportion.

    `fixed` children keep theirs; the others share the rest, each truncated, and none below zero. Doubles, in this
    order of operations, because upstream's results depend on it.
    """
    if total >= sum(mins.values()):
        return dict(mins)
    left = total - sum(value for name, value in mins.items() if name in fixed)
    scalable = sum(value for name, value in mins.items() if name not in fixed)
    return {
        name: value if name in fixed else scaled(value, left, scalable)
        for name, value in mins.items()
    }


def scaled(least: int, left: int, scalable: int) -> int:
    """One child's part of the rest for the mins, with `scalable` as their sum."""
    if left <= 0 or scalable <= 0:
        return 0
    return int(float(left) * float(least) / float(scalable))
