"""Registration of the webhook: the two configurations of the settings, compared with those of the cluster.

Bursar's own accounts read them and may not write them: an account with that right could have every Secret sent to an
address of its own. An administrator applies the output of ``bursar manifests --registration``. A `bursar up` with an
administrator's kubeconfig does it by itself.

Source: docs/webhook.md, "Registration".
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from cryptography import x509

from bus.clock import Clock, SystemClock
from bus.errors import NotFoundError, PermanentError, PermissionDeniedError
from bus.kube.kinds import GOVERNED
from deploy.errors import SettingsError
from deploy.settings.admission import AdmissionSettings
from deploy.settings.shape import Settings
from reactors.webhook.certificates import Certificates, GivenCertificates, OwnCertificates
from reactors.webhook.registration import (
    MUTATING_PATH,
    PATH,
    RegistrationSettings,
    configuration,
    mutating_configuration,
)
from reactors.webhook.tls import CertificateError

#: An administrator's command beside the pod of `bursar up`.
COMMAND = "bursar manifests --registration | kubectl apply --server-side --force-conflicts -f -"

Json = dict[str, Any]


class Registers(Protocol):
    """The needed part of :class:`bus.kube.client.KubeCluster`, with its errors."""

    async def get(self, path: str) -> Any:
        """The object at ``path``."""

    async def apply(self, path: str, body: dict[str, Any]) -> Any:
        """Server-side apply."""


class UnregisteredError(PermanentError):
    """The webhook is not registered as the settings want it, and this account may not register it.

    Show it: the message has the command for an administrator.
    """


class Registrar:
    """Registers the webhook of these settings at a cluster."""

    def __init__(
        self, cluster: Registers, wanted: RegistrationSettings, *, is_shadow: bool
    ) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._is_shadow = is_shadow
        #: Whether an administrator has to register it.
        self.waits = False

    async def register(self, bundle: bytes) -> None:
        """Write the differences. Raises UnregisteredError without the right to, and the adapter's errors."""
        for path, body in configurations(self._wanted, bundle).items():
            # Shadow mode changes no workload; the rest of `enforce` is answered without a change.
            if self._is_shadow and path == MUTATING_PATH:
                continue
            try:
                await self._write(path, body)
            except PermissionDeniedError as error:
                self.waits = True
                kind = path.rpartition("/")[0].rpartition("/")[2]
                raise UnregisteredError(
                    f"{kind}/bursar is not as the settings want it; where `bursar up` runs, print and apply it: {COMMAND}"
                ) from error
        self.waits = False

    async def _write(self, path: str, body: Json) -> None:
        try:
            found = await self._cluster.get(path)
        except (NotFoundError, PermissionDeniedError):
            found = {}
        if not covers(found, body):
            await self._cluster.apply(path, body)


def settings_of(wanted: AdmissionSettings) -> RegistrationSettings:
    """The way of the API server to the webhook, and the objects of its reviews."""
    return RegistrationSettings(
        wanted.namespace, wanted.service, 443, wanted.url, wanted.failure_policy,
        wanted.exempt_namespaces, wanted.controllers, wanted.controller_groups,
    )  # fmt: skip


def printed(settings: Settings) -> list[Json]:
    """Both configurations for an administrator to apply. Raises SettingsError if there is nothing to register."""
    wanted = settings.admission
    if wanted.mode not in ("shadow", "enforce"):
        raise SettingsError(
            f"admission.mode is {wanted.mode}: a webhook is registered in shadow and enforce"
        )
    found = certificates(settings, SystemClock())
    try:
        bundle = found.trusted() if isinstance(found, OwnCertificates) else found.renew()
    except CertificateError as error:
        raise SettingsError(
            f"{error}; ask where `bursar up` runs: kubectl -n {wanted.namespace} exec bursar-0 -- {COMMAND}"
        ) from None
    made = configurations(settings_of(wanted), bundle)
    if wanted.mode == "shadow":
        made[MUTATING_PATH] |= {"webhooks": []}
    return list(made.values())


def certificates(settings: Settings, clock: Clock) -> Certificates:
    """The certificates of the settings, or our own for the address that the API server calls."""
    wanted = settings.admission
    if wanted.certificate is not None:
        return GivenCertificates(
            wanted.certificate, wanted.key or wanted.certificate, wanted.authority
        )
    host = urlsplit(wanted.url).hostname or f"{wanted.service}.{wanted.namespace}.svc"
    return OwnCertificates(settings.data / "webhook", (host,), clock)


def configurations(wanted: RegistrationSettings, bundle: bytes) -> dict[str, Json]:
    """Each configuration by its path. ``bundle``: authorities of the serving certificate (PEM)."""
    return {
        PATH: configuration(wanted, GOVERNED, bundle),
        MUTATING_PATH: mutating_configuration(wanted, GOVERNED, bundle),
    }


def covers(found: Any, wanted: Any) -> bool:
    """Whether an object has all wanted fields. The API server fills in defaults and leaves out empty fields."""
    if isinstance(wanted, Mapping):
        if not isinstance(found, Mapping):
            return not wanted and not found
        return all(
            _trusts(found.get(key), value) if key == "caBundle" else covers(found.get(key), value)
            for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        found = found or []
        return len(found) == len(wanted) and all(map(covers, found, wanted))
    return bool(found == wanted) or (not found and not wanted)


def _trusts(found: Any, wanted: str) -> bool:
    """Whether a bundle has all authorities of another one."""
    return _authorities(wanted) <= _authorities(found or "")


def _authorities(bundle: str) -> set[x509.Certificate]:
    try:
        return set(x509.load_pem_x509_certificates(base64.b64decode(bundle)))
    except ValueError:
        return set()
