"""Settings of culling. Source: docs/culling.md."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated

from pydantic import (
    BeforeValidator,
    field_validator,
    model_validator,
)

from bus.events.policies import Mode, switch
from reactors.culling.policy import LONGEST_SECONDS, CullingPolicy, KubeflowRules
from reactors.engine.settings import WarnSettings

#: Evidence counts for two check periods. One look may take five seconds, and is decided on every ten.
SHORTEST_PERIOD_SECONDS = 15
#: Never, or at once where negative, to Kubeflow's variables.
LONGEST_MINUTES = LONGEST_SECONDS // 60


class CullingSettings(WarnSettings):
    """Whether idle notebooks are stopped, and how they are asked."""

    #: ``off``: no notebook is asked. ``shadow``: all are asked, who would be stopped is decided and recorded, nothing is
    #: done. ``on``: they are warned and stopped.
    mode: Annotated[Mode, BeforeValidator(switch)] = "shadow"
    policy: CullingPolicy = CullingPolicy()
    #: Decide as Kubeflow's culler does, with its faults, by ENABLE_CULLING, CULL_IDLE_TIME and IDLENESS_CHECK_PERIOD
    #: (minutes); where the first is not ``true``, nothing is asked or stopped.
    kubeflow: bool = False
    #: Files with the tokens that notebook servers take, by namespace (``*`` and ``?`` as in file names; the first that
    #: fits counts). Others are asked without one. Sent only to pods below a Notebook or StatefulSet, and to none on the
    #: network of its node: whoever may make those in a namespace gets the token of that namespace.
    token_files: dict[str, Path] = {}
    #: Namespaces, which no tenant may write to, whose DCGM exporters are asked for the GPUs of their nodes.
    exporter_namespaces: tuple[str, ...] = ("gpu-operator", "kube-system")
    #: Networks that are never asked: the API servers', the services'.
    refused_networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @field_validator("policy")
    @classmethod
    def _period(cls, policy: CullingPolicy) -> CullingPolicy:
        if policy.check_period_seconds < SHORTEST_PERIOD_SECONDS:
            raise ValueError(
                f"check_period_seconds {policy.check_period_seconds}: all evidence would be stale "
                f"when it is decided on; the shortest is {SHORTEST_PERIOD_SECONDS}"
            )
        return policy

    @model_validator(mode="before")
    @classmethod
    def _token_of_all(cls, values: object) -> object:
        if isinstance(values, dict) and "token_file" in values:
            raise ValueError(
                "culling.token_file sent one token to every namespace: use "
                "culling.token_files, NAMESPACE: FILE for each namespace"
            )
        return values

    @property
    def tokens(self) -> dict[str, str]:
        """The tokens by namespace pattern. Reads the files: raises OSError."""
        return {pattern: file.read_text().strip() for pattern, file in self.token_files.items()}

    def wanted(self, environment: Mapping[str, str]) -> tuple[Mode, CullingPolicy]:
        """Mode and policy, with Kubeflow's rules and variables where they are wanted. Raises CullerEnvironmentError."""
        if not self.kubeflow:
            return self.mode, self.policy
        # No question to the ledger reads the settings.
        from reactors.culling.kubeflow.environment import culler_environment

        found = culler_environment(environment)
        # So that a moment so far away can still be said.
        idle, period = (
            max(-LONGEST_MINUTES, min(minutes, LONGEST_MINUTES))
            for minutes in (found.idle_minutes, found.check_period_minutes)
        )
        limits = {
            "kubeflow": KubeflowRules(idle_minutes=idle, period_minutes=period),
            "check_period_seconds": max(period * 60, 1),
        }
        return self.mode if found.culler_started else "off", self.policy.model_copy(update=limits)

    def announcement(self, mode: Mode) -> str:
        """What ``bursar up`` says of culling when it starts: what it does to notebooks, and how that is changed."""
        return {
            "off": "off: no notebook is asked",
            "shadow": "shadow: notebooks are asked over HTTP whether they are used, and none is stopped; "
            "BURSAR_CULLING__MODE=off asks none",
            "on": "on: notebooks are asked over HTTP whether they are used, and idle ones are warned and stopped",
        }[mode]
