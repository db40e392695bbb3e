"""What may be set of admission: whether workloads are held to quotas, where the webhook listens, and who may ask it.

Source: ``docs/webhook.md``.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from bus.events.policies import switch
from deploy.errors import SettingsError


class AdmissionSettings(BaseModel):
    """Whether workloads are held to quotas, and where the webhook is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``off``; ``watch``: quotas are kept from what is seen, no webhook; ``shadow``: reviews are decided and recorded, and
    #: nothing is refused; ``enforce``.
    mode: Annotated[Literal["off", "watch", "shadow", "enforce"], BeforeValidator(switch)] = "watch"
    #: Where the webhook listens.
    host: str = "0.0.0.0"
    port: int = Field(9443, ge=0, le=65_535)
    #: How the API server reaches it: a service of this namespace, or ``https://HOST:PORT`` for a Bursar outside.
    namespace: str = "bursar-system"
    service: str = "bursar-webhook"
    url: str = ""
    #: What the API server does while no webhook answers. ``Fail`` refuses what a label maps to a quota.
    failure_policy: Literal["Ignore", "Fail"] = "Ignore"
    #: More namespaces that are held to no quota.
    exempt_namespaces: tuple[str, ...] = ()
    #: A quota that names no namespaces, nor one above it, serves only namespaces that are mapped to it by their label.
    require_namespaces: bool = False
    #: Users whose objects below a governed owner are the owner's, besides Kubernetes' own controllers: name here what
    #: makes pods for Notebooks, TFJobs, RayClusters, as ``system:serviceaccount:<namespace>:<name>``.
    controllers: tuple[str, ...] = ()
    #: Groups of such users. Kubernetes' own controllers act as service accounts of ``kube-system``.
    controller_groups: tuple[str, ...] = ("system:serviceaccounts:kube-system",)
    #: Whether ``.status`` and Koordinator's annotations of ElasticQuotas are written. Off beside a scheduler that writes them.
    elastic_status: bool = True
    #: Serving certificate, its key and its authority (PEM), kept by another program; None = Bursar's own.
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None
    #: Authorities (PEM) of the certificate that the API server shows to webhooks; only its holders get through the
    #: handshake. ``enforce`` needs it unless the webhook listens on a loopback address.
    client_ca: Path | None = None
    #: Names of which that certificate has to have one, common name or alternative name; empty = any of the authorities'.
    client_names: tuple[str, ...] = ()
    #: ``enforce`` without ``client_ca``, on purpose: whoever reaches the port can charge any quota.
    allow_unauthenticated: bool = False
    #: Whether ``bursar up`` answers reviews itself. Off: it registers the webhook and keeps the quotas, and processes of
    #: ``bursar webhook`` answer.
    serves: bool = True
    #: A governed namespace in which nothing runs: dry runs there prove that reviews arrive.
    probe_namespace: str = "bursar-probe"
    #: Where ``/healthz``, ``/readyz`` and ``/metrics`` are, in plain HTTP. The metrics name every quota.
    health_host: str = "127.0.0.1"
    #: None = the port after ``port``; in ``watch`` and ``off`` none unless it is named.
    health_port: int | None = Field(None, ge=0, le=65_535)
    #: Whether that port also tells nodes, elastic quotas and scores, as Koordinator's scheduler does. None = where
    #: ``health_host`` is a loopback address.
    diagnosis: bool | None = None
    #: Open connections to the webhook, in all and from one address. An API server sends at most 600 requests at once.
    connections: int = Field(1_000, ge=8, le=100_000)
    connections_per_address: int = Field(700, ge=4, le=100_000)

    @property
    def address(self) -> str:
        """Where the API server calls the webhook."""
        return self.url or f"https://{self.service}.{self.namespace}.svc:443"

    @property
    def is_reachable_by_others(self) -> bool:
        """Whether the webhook listens on an address beyond this machine."""
        return not _is_loopback(self.host)

    @property
    def answers_diagnosis(self) -> bool:
        """Whether there is a port of health with the scheduler's diagnosis."""
        if self.mode not in ("shadow", "enforce"):
            return False
        return _is_loopback(self.health_host) if self.diagnosis is None else self.diagnosis

    @property
    def is_open(self) -> bool:
        """Whether any remote client of the webhook may send it reviews."""
        return self.is_reachable_by_others and self.client_ca is None

    def require_authenticated(self) -> None:
        """Raises SettingsError if effective reviews could be forged from the network."""
        if self.mode != "enforce" or not self.is_open or self.allow_unauthenticated:
            return
        raise SettingsError(
            f"admission.mode is enforce and the webhook listens on {self.host}, where anybody who reaches port {self.port} "
            "could send forged reviews and charge any quota. Set admission.client_ca to the authority of the API server's "
            "client certificate (docs/webhook.md), or admission.host to 127.0.0.1, or, where "
            "a network policy sees to it, admission.allow_unauthenticated to true"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def announcement_of(wanted: AdmissionSettings) -> str:
    """The lines of ``bursar up`` about admission at its start: the mode, the address, and the allowed senders of reviews."""
    if wanted.mode in ("off", "watch"):
        return {
            "off": "off: quotas are listed, and hold nobody",
            "watch": "watch: what runs is charged as it is seen, and nothing is refused",
        }[wanted.mode]
    does = {
        "shadow": "shadow: reviews are decided and recorded, and nothing is refused",
        "enforce": "enforce: what does not fit its quota is refused",
    }[wanted.mode]
    asks = (
        "whoever reaches the port may send reviews" if wanted.is_open else "only this machine asks"
    )
    if wanted.client_ca is not None:
        names = ", ".join(wanted.client_names) or "any name"
        asks = f"only clients of {wanted.client_ca} ask ({names})"
    return (
        f"{does}; it listens on {wanted.host}:{wanted.port}, the API server calls {wanted.address}, "
        f"failure policy {wanted.failure_policy}, {asks}"
    )
