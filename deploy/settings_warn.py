"""Who is told of warnings: one address of the operator's, for every part that warns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

if TYPE_CHECKING:
    from bus.notify import Receiver


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
        """Who is told of warnings; None = nobody. Reads the token's file: raises OSError."""
        # The library behind it takes a tenth of a second to import, which no question to the ledger should pay.
        from bus.notify import Receiver

        if self.warn_url is None:
            return None
        token = self.warn_token_file.read_text().strip() if self.warn_token_file else ""
        return Receiver(self.warn_url.get_secret_value(), token)


class BudgetSettings(WarnSettings):
    """Who is told when a budget runs out: at 80 % of it, when it is spent, and when the grace after that is over."""
