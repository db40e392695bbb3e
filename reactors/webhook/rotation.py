"""ADAPTER: keeps the certificate fresh while the server runs: renew, make trusted, promote, serve. Needs no restart.

An API server that is away or refuses delays a renewal and ends nothing: a third of a certificate's life is left.
The configuration is written at the start and with each new authority only. An administrator may delete it in
an emergency, and it must not come back a minute later.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bus.clock import SECOND_US
from bus.errors import BursarError
from bus.metrics import Metric, Sample
from reactors.webhook.certificates import Certificates, content_digest, ends_us
from reactors.webhook.tls import RotatingContext, server_context

LOOK_SECONDS = 10.0

#: Makes the API server trust these authorities (PEM), or raises: :mod:`deploy.runtime.registering`.
Trust = Callable[[bytes], Awaitable[object]]

_log = logging.getLogger(__name__)


class Rotation:
    """The serving side of `certificates`. With `client_ca`, clients need a certificate of these authorities.

    ``trust`` None: another process registers the webhook, and serves a new authority first.
    """

    def __init__(
        self, certificates: Certificates, trust: Trust | None, client_ca: Path | None = None
    ) -> None:
        self._certificates = certificates
        self._trust = trust
        self._client_ca = client_ca
        self._trusted: bytes | None = None
        self._served = b""
        self._tls: RotatingContext | None = None
        #: Why the API server could not be told, or the new certificate not be used; "" = all is well.
        self.problem = ""
        #: The end of the served files, by file: the certificate, and the authorities of clients.
        self.ends: dict[str, int] = {}

    def begin(self) -> RotatingContext:
        """The TLS context of the server. Makes the first certificate; does not call the API server.

        Raises CertificateError without a certificate.
        """
        self._certificates.renew()
        self._served = self._digest()
        self._tls = RotatingContext(self._context(), self._context())
        self.ends = self._ends()
        return self._tls

    async def run(self) -> None:
        """Looks until it is cancelled. `begin` comes first."""
        while True:
            await self.turn()
            await asyncio.sleep(LOOK_SECONDS)

    async def turn(self) -> None:
        """One look: every due step. A failure is reported in `problem` and retried at the next look."""
        problems = [await self._problem_of(step) for step in (self._make_trusted, self._serve)]
        found = "; ".join(filter(None, problems))
        if found and found != self.problem:
            _log.warning("the webhook is not ready: %s", found)
        self.problem = found

    async def _problem_of(self, step: Callable[[], Awaitable[None]]) -> str:
        try:
            await step()
        except BursarError as error:
            return str(error)
        return ""

    async def _make_trusted(self) -> None:
        bundle = await asyncio.to_thread(self._certificates.renew)
        if self._trust is None:
            return
        if bundle == self._trusted:
            # It was registered at an earlier look, so API servers had time to load it.
            await asyncio.to_thread(self._certificates.promote)
        else:
            await self._trust(bundle)
            self._trusted = bundle

    async def _serve(self) -> None:
        assert self._tls is not None
        digest = self._digest()
        if digest != self._served:
            self._tls.use(self._context())
            self._served, self.ends = digest, self._ends()
            _log.info("the webhook serves another certificate")

    def _context(self) -> ssl.SSLContext:
        return server_context(
            self._certificates.certificate, self._certificates.key, self._client_ca
        )

    def metrics(self) -> Iterator[Metric]:
        """When certificates end."""
        meaning = "When what the webhook serves, and the authorities of its clients, end: seconds since 1970."
        samples = [Sample(us // SECOND_US, {"file": file}) for file, us in self.ends.items()]
        yield Metric("bursar_webhook_certificate_end_seconds", "gauge", meaning, samples)

    def _ends(self) -> dict[str, int]:
        # A chain ends with its first certificate; one valid authority of clients is enough.
        found = {str(self._certificates.certificate): ends_us(self._certificates.certificate)[:1]}
        if self._client_ca is not None:
            found[str(self._client_ca)] = ends_us(self._client_ca)[-1:]
        return {file: us for file, ends in found.items() for us in ends}

    def _digest(self) -> bytes:
        return self._certificates.digest() + (
            b"" if self._client_ca is None else content_digest(self._client_ca)
        )
