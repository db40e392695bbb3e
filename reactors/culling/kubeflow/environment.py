"""The culler's environment variables as settings, so the values of a Kubeflow installation stay valid.

Source: docs/culling.md; culling_controller.go lines 385 to 438, main.go lines 110 to 122.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from bus.errors import PermanentError

DAY_MINUTES = 1440
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64 = range(-(2**63), 2**63)


class CullerEnvironmentError(PermanentError):
    """The culler would not start with this environment.

    Show the variable and refuse to start, as the notebook controller does.
    """


class CullerEnvironment(msgspec.Struct, frozen=True):
    """Effective settings. ``idle_minutes`` may be negative: then everything idle is culled at once."""

    culler_started: bool = False
    idle_minutes: int = DAY_MINUTES
    check_period_minutes: int = 1
    #: Probes go through a local ``kubectl proxy`` on port 8001.
    through_local_proxy: bool = False
    cluster_domain: str = "cluster.local"


def culler_environment(variables: Mapping[str, str]) -> CullerEnvironment:
    """The settings from the variables; empty text counts as unset.

    An unreadable CULL_IDLE_TIME is a day. Raises CullerEnvironmentError for an unreadable IDLENESS_CHECK_PERIOD;
    only an enabled culler reads it. The names before 1.5, IDLE_TIME and CULLING_CHECK_PERIOD, have no effect.
    """
    started = variables.get("ENABLE_CULLING") == "true"
    period = _integer(variables.get("IDLENESS_CHECK_PERIOD") or "1")
    if period is None and started:
        raise CullerEnvironmentError(
            variable="IDLENESS_CHECK_PERIOD", text=variables["IDLENESS_CHECK_PERIOD"][:40]
        )
    idle = _integer(variables.get("CULL_IDLE_TIME") or str(DAY_MINUTES))
    return CullerEnvironment(
        culler_started=started,
        idle_minutes=DAY_MINUTES if idle is None else idle,
        check_period_minutes=1 if period is None else period,
        through_local_proxy=(variables.get("DEV") or "false") != "false",
        cluster_domain=variables.get("CLUSTER_DOMAIN") or "cluster.local",
    )


def _integer(text: str) -> int | None:
    """``text`` as Go's ``strconv.Atoi`` reads it; None where it refuses."""
    if len(text) > 20 or not _INTEGER.fullmatch(text):
        return None
    return int(text) if int(text) in _INT64 else None
