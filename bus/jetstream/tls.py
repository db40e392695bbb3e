"""The encryption of a connection to NATS, and the certificate of its client.

Source: NATS protocol (INFO, `tls_required`); docs/install.md (your NATS).
"""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec

from bus.errors import BusTlsError


class Tls(msgspec.Struct, frozen=True):
    """PEM files. `ca`: the authority of servers; None = the authorities trusted by this machine. `cert` and `key`:
    our own; None = no certificate is shown.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The current files, so renewed ones count from the next connection on.

        Server names are compared. Raises BusTlsError with the file's name.
        """
        path = self.ca
        try:
            context = ssl.create_default_context(cafile=None if path is None else str(path))
            if (path := self.cert) is not None:
                context.load_cert_chain(str(path), None if self.key is None else str(self.key))
        except (OSError, ValueError) as error:
            # An unreadable key is an error without a name.
            files = path if path == self.ca or self.key is None else f"{path}, {self.key}"
            raise BusTlsError(reason=_reason(error), path=str(files)) from error
        return context


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "no certificate or key").replace("_", " ").lower()
    return (error.strerror if isinstance(error, OSError) else "") or str(error)
