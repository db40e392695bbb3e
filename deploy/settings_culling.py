"""What may be set of culling. Source: ``kubeflow.md`` A.1, A.7."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, IPvAnyNetwork, SecretStr, field_validator

from bus.events.policies import Mode
from reactors.culling.kubeflow.environment import culler_environment
from reactors.culling.policy import LONGEST_SECONDS, CullingPolicy, KubeflowRules

if TYPE_CHECKING:
    from bus.notify import Receiver


#: Never, or at once where negative, to Kubeflow's variables.
LONGEST_MINUTES = LONGEST_SECONDS // 60


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
    #: Who is told of each warning: an address that takes a POST of JSON, http or https. None = nobody. It may hold a secret.
    warn_url: SecretStr | None = None
    #: File with the token that is sent there as ``Authorization: Bearer``. None = none is.
    warn_token_file: Path | None = None
    #: Networks that are never asked: the API servers', the services'.
    refused_networks: tuple[IPvAnyNetwork, ...] = ()

    @field_validator("warn_url")
    @classmethod
    def _address(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            parts = urlsplit(url.get_secret_value())
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("the address is not http://HOST/… or https://HOST/…")
        return url

    @property
    def receiver(self) -> Receiver | None:
        """Who is told of warnings; None = nobody. Reads the token's file: raises OSError."""
        # The library behind it takes a tenth of a second to import, which no question to the ledger should pay.
        from bus.notify import Receiver

        if self.warn_url is None:
            return None
        token = self.warn_token_file.read_text().strip() if self.warn_token_file else ""
        return Receiver(self.warn_url.get_secret_value(), token)

    def effective(self, environment: Mapping[str, str]) -> tuple[Mode, CullingPolicy]:
        """Mode and policy, with Kubeflow's rules and variables where they are wanted. Raises CullerEnvironmentError."""
        if not self.kubeflow:
            return self.mode, self.policy
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


def told_of(mode: Mode) -> str:
    """What ``bursar up`` says of culling when it starts: what it does to notebooks, and how that is changed."""
    return {
        "off": "off: no notebook is asked",
        "shadow": "shadow: notebooks are asked over HTTP whether they are used, and none is stopped; "
        "BURSAR_CULLING__MODE=off asks none",
        "on": "on: notebooks are asked over HTTP whether they are used, and idle ones are warned and stopped",
    }[mode]
