"""What may be set of culling. Source: ``kubeflow.md`` A.1, A.7."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, IPvAnyNetwork

from bus.events.policies import Mode
from reactors.culling.kubeflow.environment import culler_environment
from reactors.culling.policy import CullingPolicy, KubeflowRules


class CullingSettings(BaseModel):
    """Whether idle notebooks are stopped, and how they are asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``off``: no notebook is asked. ``shadow``: all are asked, who would be stopped is decided and recorded, nothing is
    #: done. ``on``: they are warned and stopped.
    mode: Mode = "shadow"
    policy: CullingPolicy = CullingPolicy()
    #: Decide as Kubeflow's culler does, with its faults, by ENABLE_CULLING, CULL_IDLE_TIME and IDLENESS_CHECK_PERIOD
    #: (minutes); where the first is not ``true``, nothing is asked or stopped.
    kubeflow: bool = False
    #: File with the token that notebook servers of this installation take. None = they are asked without one.
    token_file: Path | None = None
    #: Networks that are never asked: the API servers', the services'.
    refused_networks: tuple[IPvAnyNetwork, ...] = ()

    def effective(self, environment: Mapping[str, str]) -> tuple[Mode, CullingPolicy]:
        """Mode and policy, with Kubeflow's rules and variables where they are wanted. Raises CullerEnvironmentError."""
        if not self.kubeflow:
            return self.mode, self.policy
        found = culler_environment(environment)
        rules = KubeflowRules(
            idle_minutes=found.idle_minutes, period_minutes=found.check_period_minutes
        )
        limits = {
            "kubeflow": rules,
            "check_period_seconds": max(found.check_period_minutes * 60, 1),
        }
        return self.mode if found.culler_started else "off", self.policy.model_copy(update=limits)


def told_of(mode: Mode) -> str:
    """What ``bursar up`` says of culling when it starts: what it does to notebooks, and how that is changed."""
    return {
        "off": "off: no notebook is asked",
        "shadow": "shadow: notebooks are asked over HTTP whether they are used, and none is stopped; "
        "BURSAR_CULLING__MODE=off asks none",
        "on": "on: notebooks are asked over HTTP whether they are used, and idle ones are warned and stopped",
    }[mode]
