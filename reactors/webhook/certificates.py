"""ADAPTER: the serving certificates' files: made and renewed by us, or given and watched.

Ours come in generations. A generation is an authority and one serving certificate; the authority's key signs that
one certificate and is thrown away, so nothing that could sign another one ever lies on a disk. A generation is renewed
after two thirds of its life, in two steps: the next one's authority is first *trusted* by the API server, beside the
current one (`renew` gives the bundle), and only then *served* (`promote`). The authority before stays trusted until it
expires, as other processes may serve it a little longer.

Given files (cert-manager, a mounted secret) are used as they are; where they change, `digest` does.

Source: docs/architecture.md (webhook: certificates); Kubernetes, "Admission Webhook Good Practices".
"""

from __future__ import annotations

import fcntl
import hashlib
import ipaddress
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bus.clock import SECOND_US, Clock
from bus.private_files import descriptor, own_folder
from reactors.webhook.tls import CertificateError

LIFE_SECONDS = 90 * 86_400
#: Clocks of API servers may be behind ours.
BACKDATED_SECONDS = 3_600
#: Between the first trust and the first use of a generation: API servers pass a changed bundle on within a second.
SETTLE_SECONDS = 10

_EPOCH = datetime(1970, 1, 1)
_log = logging.getLogger(__name__)


class Certificates(Protocol):
    """Where the certificate comes from."""

    @property
    def certificate(self) -> Path:
        """The chain to serve, leaf first."""

    @property
    def key(self) -> Path:
        """Its private key."""

    def renew(self) -> bytes:
        """Makes what is missing or due; the authorities that the API server has to trust, PEM.

        Empty where they are not ours to tell. Raises CertificateError.
        """

    def promote(self) -> None:
        """Serve the newest certificate: called once the API server trusts what `renew` gave."""

    def digest(self) -> bytes:
        """Of certificate and key: another one where they have changed. Raises CertificateError."""


class OwnCertificates:
    """Generations in a folder, made for these `names` (DNS names and IP addresses).

    Processes that share the folder share the generations. Files are readable by their owner alone.
    """

    def __init__(self, folder: Path, names: tuple[str, ...], clock: Clock) -> None:
        self._folder = folder
        self._names = names
        self._clock = clock

    @property
    def certificate(self) -> Path:
        """The current generation: serving certificate, its key, its authority."""
        return self._folder / "current.pem"

    key = certificate

    @property
    def _next(self) -> Path:
        return self._folder / "next.pem"

    @property
    def _previous(self) -> Path:
        return self._folder / "previous.pem"

    def renew(self) -> bytes:
        """See :class:`Certificates`. On a new folder the first generation is current at once."""
        now_us = self._clock.now_us()
        with self._alone():
            current, coming = self._read(self.certificate), self._read(self._next)
            if current is None or not current.is_valid(now_us, ()):
                # Nobody can be served with it, so there is nobody to wait for.
                current = self._make(self.certificate, now_us)
            if coming is not None and not coming.is_valid(now_us, self._names):
                coming = None
            if coming is None and current.is_due(now_us, self._names):
                coming = self._make(self._next, now_us)
            previous = self._read(self._previous)
        known = [one for one in (previous, current, coming) if one and one.is_valid(now_us, ())]
        # Oldest first, so that a promotion changes nothing of what is trusted.
        return b"".join(one.authority for one in sorted(known, key=lambda one: one.begins_us))

    def promote(self) -> None:
        """See :class:`Certificates`. Nothing happens before the next generation is `SETTLE_SECONDS` old."""
        now_us = self._clock.now_us()
        with self._alone():
            coming = self._read(self._next)
            if coming is None or now_us < coming.made_us + SETTLE_SECONDS * SECOND_US:
                return
            # A copy, so that there is a current one at every moment.
            _write(self._previous, self.certificate.read_bytes())
            os.replace(self._next, self.certificate)

    def digest(self) -> bytes:
        """See :class:`Certificates`."""
        return content_digest(self.certificate)

    def _make(self, path: Path, now_us: int) -> _Generation:
        content = _generation(self._names, now_us)
        _write(path, content)
        _log.info("a new serving certificate for %s", ", ".join(self._names))
        return _decoded(content)

    def _read(self, path: Path) -> _Generation | None:
        try:
            return _decoded(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            _log.warning("%s is no certificate of ours and is made anew: %s", path, error)
            return None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time makes and moves generations."""
        own_folder(self._folder)
        handle = descriptor(self._folder / "lock")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


class GivenCertificates:
    """Files that somebody else keeps fresh. `authority` None = the CA bundle is not ours to tell."""

    def __init__(self, certificate: Path, key: Path, authority: Path | None = None) -> None:
        self.certificate = certificate
        self.key = key
        self._authority = authority

    def renew(self) -> bytes:
        """See :class:`Certificates`."""
        return b"" if self._authority is None else _content(self._authority)

    def promote(self) -> None:
        """What is there is served."""

    def digest(self) -> bytes:
        """See :class:`Certificates`."""
        return content_digest(self.certificate, self.key)


class _Generation(msgspec.Struct, frozen=True):
    names: frozenset[str]
    begins_us: int
    ends_us: int
    authority: bytes

    @property
    def made_us(self) -> int:
        return self.begins_us + BACKDATED_SECONDS * SECOND_US

    def is_valid(self, now_us: int, names: tuple[str, ...]) -> bool:
        return self.begins_us <= now_us < self.ends_us and self.names.issuperset(names)

    def is_due(self, now_us: int, names: tuple[str, ...]) -> bool:
        two_thirds_us = (self.ends_us - self.made_us) * 2 // 3
        return now_us >= self.made_us + two_thirds_us or not self.names.issuperset(names)


def _decoded(content: bytes) -> _Generation:
    """Raises ValueError for anything that `_generation` did not write."""
    serving, authority = x509.load_pem_x509_certificates(content)
    serialization.load_pem_private_key(content, None)
    try:
        found = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise ValueError("no names") from error
    return _Generation(
        frozenset(str(name.value) for name in found),
        _us(serving.not_valid_before_utc),
        _us(serving.not_valid_after_utc),
        authority.public_bytes(serialization.Encoding.PEM),
    )


def _generation(names: tuple[str, ...], now_us: int) -> bytes:
    """PEM of a serving certificate, its key, and the authority that was made for it alone."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bursar-webhook-ca")])
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), now_us)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bursar-webhook")])
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    serving = (
        _builder(subject, issuer, key.public_key(), now_us)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(map(_name, names)), critical=False)
        .add_extension(issued_by, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem = serialization.Encoding.PEM
    return serving.public_bytes(pem) + private + authority.public_bytes(pem)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now_us: int
) -> x509.CertificateBuilder:
    begins = now_us - BACKDATED_SECONDS * SECOND_US
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_utc(begins))
        .not_valid_after(_utc(now_us + LIFE_SECONDS * SECOND_US))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _utc(us: int) -> datetime:
    # Certificates know whole seconds.
    return _EPOCH + timedelta(seconds=us // SECOND_US)


def _us(moment: datetime) -> int:
    return (moment.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)


def _write(path: Path, content: bytes) -> None:
    """All of it or nothing, never readable by others."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def ends_us(path: Path) -> list[int]:
    """When the certificates of a file end, soonest first; nothing where that cannot be read. Raises CertificateError."""
    try:
        found = x509.load_pem_x509_certificates(_content(path))
        return sorted(_us(one.not_valid_after_utc) for one in found)
    except ValueError:
        # Who serves it judges whether it can be used.
        return []


def content_digest(*paths: Path) -> bytes:
    """SHA-256 of these files. Raises CertificateError."""
    return hashlib.sha256(b"\0".join(_content(path) for path in paths)).digest()


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(
            "a certificate's file cannot be read", file=str(path), reason=type(error).__name__
        ) from None
