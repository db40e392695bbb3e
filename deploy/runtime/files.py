"""ADAPTER: the limit of open files of this process, and the part of it for connections.

Every connection is a file to the system. Ledger, bus and API server need files, too, and a ledger that cannot open one
ends ``bursar up``; so connections get the rest after a reserve.

Source: Linux manual, getrlimit(2); systemd.exec, LimitNOFILE (the soft limit of 1,024 is for programs that use select).
"""

from __future__ import annotations

import resource

#: Files for everything but connections of the webhook: ledger, bus, API server, probed notebooks, logs.
RESERVED = 384


def raise_file_limit() -> str:
    """Raise the soft limit of open files to the hard one. Returns a sentence on the change."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return f"files: {_number(soft)} may be open"
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        return f"files: {_number(soft)} may be open; the limit cannot be raised: {error}"
    return f"files: {_number(hard)} may be open, raised from {_number(soft)}"


def connections(wanted: int) -> int:
    """As many connections as are wanted and leave the reserve; at least 8."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(min(wanted, soft - RESERVED), 8)


def _number(limit: int) -> str:
    return "any number" if limit == resource.RLIM_INFINITY else f"{limit:,}"
