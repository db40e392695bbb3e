"""TLS with a certificate that changes while connections stay: 1.2 and newer, client certificates on request.

Each new handshake gets the newest context, through OpenSSL's server-name callback. OpenSSL
calls it for clients without a server name too (an API server that dials an address sends none). Refused:
`load_cert_chain` on the context in use. It leaves half a certificate when the second file is wrong, and can
never remove a client authority.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bus.errors import PermanentError


class CertificateError(PermanentError):
    """A certificate, its key or its authority cannot be used.

    Keep serving with the one before; where there is none, do not start.
    """


def server_context(
    certificate: Path, key: Path | None = None, client_ca: Path | None = None
) -> ssl.SSLContext:
    """A context with the identity of `certificate` (a chain, leaf first; with its key in it if `key` is None).

    With `client_ca`, only clients with a certificate of these authorities get through the handshake. Raises
    CertificateError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Without resumption every connection proves itself anew, with the certificates of its day.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CertificateError(
            "the certificate cannot be used", file=str(certificate), reason=str(error)[:200]
        ) from None
    return context


def names_of(certificate: Mapping[str, Any]) -> frozenset[str]:
    """Every name in a verified certificate as `ssl.SSLSocket.getpeercert` gives it: common names and alternative names."""

    def found() -> Iterator[str]:
        for part in certificate.get("subject", ()):
            yield from (value for key, value in part if key == "commonName")
        yield from (
            value for _, value in certificate.get("subjectAltName", ()) if isinstance(value, str)
        )

    return frozenset(found())


class RotatingContext:
    """The context of a listening socket, while its certificate changes.

    The first context fixes whether client certificates are requested; the accepted ones follow the newest.
    """

    def __init__(self, first: ssl.SSLContext, listening: ssl.SSLContext) -> None:
        self._newest = first
        #: For the listening socket: a context made of the same files, never used itself.
        self.listening = listening
        self.listening.sni_callback = self._exchange

    def use(self, context: ssl.SSLContext) -> None:
        """Serve every handshake from now on with `context`; open connections go on."""
        self._newest = context

    def _exchange(
        self, connection: ssl.SSLSocket | ssl.SSLObject, name: str, listening: ssl.SSLContext
    ) -> None:
        connection.context = self._newest
