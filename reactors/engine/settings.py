"""Settings common to reactors: mode, policy, and the address for warnings. A reactor's section is in its own folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from bus.events.policies import Mode

if TYPE_CHECKING:
    from bus.notify import Receiver


class Pace(BaseModel):
    """How many destructive decisions of a reactor may be made, beside the interlocks' own limit. A change holds at once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: In any minute. Ten: a person can still look at each.
    per_minute: int = Field(10, ge=0)
    #: In any five minutes, for one namespace, one node, and one workload.
    per_namespace: int = Field(5, ge=0)
    per_node: int = Field(5, ge=0)
    per_workload: int = Field(1, ge=0)


class ReactorPolicy(BaseModel):
    """What every reactor's policy has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pace: Pace = Pace()

    @property
    def follows(self) -> frozenset[str]:
        """The kinds followed only for it, see :class:`bus.kube.watch.contract.Source`."""
        return frozenset()


class ReactorSettings(Protocol):
    """A reactor's section of the settings: a pydantic model whose defaults make a whole section."""

    def wanted(self, environment: Mapping[str, str]) -> tuple[Mode, ReactorPolicy] | None:
        """The operator's mode and policy; None for a reactor without a policy.

        ``environment``: variables of other programs may count, too.
        """

    def announcement(self, mode: Mode) -> str:
        """The line of ``bursar up`` at its start: the effect of ``mode``, and the way to change it; "" = none."""


class WarnSettings(BaseModel):
    """An address that is told, and the token that it takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Who is told of each warning: an address that takes a POST of JSON, http or https. None = nobody. It may hold a secret.
    warn_url: SecretStr | None = None
    #: File with the token that is sent there as ``Authorization: Bearer``. None = none is.
    warn_token_file: Path | None = None

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
        """The receiver of warnings; None = none. Reads the token's file: raises OSError."""
        # Importing the library behind it takes a tenth of a second; questions to the ledger should not pay for it.
        from bus.notify import Receiver

        if self.warn_url is None:
            return None
        token = self.warn_token_file.read_text().strip() if self.warn_token_file else ""
        return Receiver(self.warn_url.get_secret_value(), token)
