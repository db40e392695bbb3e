"""ADAPTER: the serving certificates' files: made and renewed by us, or given and watched.

Own certificates come in generations. A generation is an authority of ten years and the newest serving certificate signed by it.
Serving certificates are renewed after two thirds of their life and need no new trust: an administrator registers the
authority once. It signs for the webhook's names alone (name constraints), so its key is worth no more than the key beside it.
An authority is replaced a year before its end, in two steps: the next one is first *trusted* by the API server, beside the
current one (`renew` returns the bundle), and only then *served* (`promote`). The authority before stays trusted until it
expires, as other processes may serve it a little longer.

Given files (cert-manager, a mounted secret) are used as they are. After a change of them, `digest` changes.

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
AUTHORITY_SECONDS = 3_650 * 86_400
#: The last part of an authority's life: its successor waits to be registered. It is backdated as much, as clocks are set back.
NOTICE_SECONDS = 365 * 86_400
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
        """Makes missing or due certificates; returns the authorities for the API server to trust, PEM.

        Empty if another program manages the bundle. Raises CertificateError.
        """

    def promote(self) -> None:
        """Serve the newest certificate: called once the API server trusts the bundle of `renew`."""

    def digest(self) -> bytes:
        """Of certificate and key: another one where they have changed. Raises CertificateError."""


class OwnCertificates:
    """Generations in a folder, for these `names` (DNS names and IP addresses).

    Processes with the same folder share the generations. Files are readable by their owner alone.
    """

    def __init__(self, folder: Path, names: tuple[str, ...], clock: Clock) -> None:
        self._folder = folder
        self._names = names
        self._clock = clock

    @property
    def certificate(self) -> Path:
        """The current generation: serving certificate and its key, authority and its key."""
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
            current = self._fresh(self.certificate, now_us)
            coming = self._fresh(self._next, now_us)
            if current is None:
                # It cannot serve any client, so there is no client to wait for.
                current = self._make(self.certificate, now_us)
            if coming is not None and not coming.names.issuperset(self._names):
                coming = None
            if coming is None and current.is_due(now_us, self._names):
                coming = self._make(self._next, now_us)
            previous = self._read(self._previous)
        known = [one for one in (previous, current, coming) if one and one.is_trusted(now_us)]
        # Oldest first, so a promotion does not change the trusted bundle.
        return b"".join(one.authority for one in sorted(known, key=lambda one: one.begins_us))

    def trusted(self) -> bytes:
        """The bundle of `renew`, for a folder with an authority. Raises CertificateError if it has none."""
        content_digest(self.certificate)
        return self.renew()

    def promote(self) -> None:
        """See :class:`Certificates`. Nothing happens before the next generation is `SETTLE_SECONDS` old."""
        now_us = self._clock.now_us()
        with self._alone():
            coming = self._read(self._next)
            if coming is None or now_us < coming.made_us + SETTLE_SECONDS * SECOND_US:
                return
            # A copy, so there is a current one at every moment.
            _write(self._previous, self.certificate.read_bytes())
            os.replace(self._next, self.certificate)

    def digest(self) -> bytes:
        """See :class:`Certificates`."""
        return content_digest(self.certificate)

    def _make(self, path: Path, now_us: int) -> _Generation:
        return self._write(path, _authority(self._names, now_us), now_us)

    def _write(self, path: Path, authority: bytes, now_us: int) -> _Generation:
        """A new serving certificate of an authority (certificate and key)."""
        content = _serving(self._names, authority, now_us) + authority
        _write(path, content)
        _log.info("a new serving certificate for %s", ", ".join(self._names))
        return _decoded(content)

    def _fresh(self, path: Path, now_us: int) -> _Generation | None:
        """The generation of a file, with a serving certificate that is not due. None if it cannot be served any more."""
        found = self._read(path)
        if found is None or not found.is_trusted(now_us):
            return None
        if found.signs and found.is_serving_due(now_us) and found.names.issuperset(self._names):
            return self._write(path, found.authority + found.signs, now_us)
        return found if found.served_from_us <= now_us < found.served_until_us else None

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
    """Files renewed from outside. `authority` None = another program manages the CA bundle."""

    def __init__(self, certificate: Path, key: Path, authority: Path | None = None) -> None:
        self.certificate = certificate
        self.key = key
        self._authority = authority

    def renew(self) -> bytes:
        """See :class:`Certificates`."""
        return b"" if self._authority is None else _content(self._authority)

    def promote(self) -> None:
        """Do nothing: the given files are served."""

    def digest(self) -> bytes:
        """See :class:`Certificates`."""
        return content_digest(self.certificate, self.key)


class _Generation(msgspec.Struct, frozen=True):
    names: frozenset[str]
    #: Of the authority, from and to.
    begins_us: int
    ends_us: int
    #: Of the serving certificate.
    served_from_us: int
    served_until_us: int
    #: PEM of the authority's certificate, and of its key; b"" = made by a version that kept none.
    authority: bytes
    signs: bytes

    @property
    def made_us(self) -> int:
        return self.served_from_us + BACKDATED_SECONDS * SECOND_US

    def is_trusted(self, now_us: int) -> bool:
        return self.begins_us <= now_us < self.ends_us

    def is_serving_due(self, now_us: int) -> bool:
        life_us = self.served_until_us - self.served_from_us - BACKDATED_SECONDS * SECOND_US
        return not self.served_from_us <= now_us < self.served_until_us - life_us // 3

    def is_due(self, now_us: int, names: tuple[str, ...]) -> bool:
        is_ending = now_us >= self.ends_us - NOTICE_SECONDS * SECOND_US
        return is_ending or not self.signs or not self.names.issuperset(names)


def _decoded(content: bytes) -> _Generation:
    """Raises ValueError for any content not written here."""
    serving, authority = x509.load_pem_x509_certificates(content)
    keys = [_KEY + one.partition(_END)[0] + _END for one in content.split(_KEY)[1:]]
    for key in keys:
        serialization.load_pem_private_key(key, None)
    if len(keys) not in (1, 2):
        raise ValueError("not the keys of a generation")
    try:
        found = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise ValueError("no names") from error
    return _Generation(
        frozenset(str(name.value) for name in found),
        _us(authority.not_valid_before_utc),
        _us(authority.not_valid_after_utc),
        _us(serving.not_valid_before_utc),
        _us(serving.not_valid_after_utc),
        authority.public_bytes(_PEM),
        b"".join(keys[1:]),
    )


_PEM = serialization.Encoding.PEM
_KEY, _END = b"-----BEGIN PRIVATE KEY-----", b"-----END PRIVATE KEY-----\n"


def _authority(names: tuple[str, ...], now_us: int) -> bytes:
    """PEM of an authority limited to these names, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bursar-webhook-ca")])
    only = x509.NameConstraints([_constraint(name) for name in names], None)
    authority = (
        _builder(issuer, issuer, key.public_key(), now_us, NOTICE_SECONDS, AUTHORITY_SECONDS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(only, critical=True)
        .sign(key, hashes.SHA256())
    )
    return authority.public_bytes(_PEM) + _private(key)


def _serving(names: tuple[str, ...], signer: bytes, now_us: int) -> bytes:
    """PEM of a serving certificate and its key, signed by an authority (PEM, with its key)."""
    key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.load_pem_x509_certificate(signer)
    signs = serialization.load_pem_private_key(_KEY + signer.partition(_KEY)[2], None)
    assert isinstance(signs, ec.EllipticCurvePrivateKey)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bursar-webhook")])
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signs.public_key())
    serving = (
        _builder(
            subject, authority.subject, key.public_key(), now_us, BACKDATED_SECONDS, LIFE_SECONDS
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(map(_name, names)), critical=False)
        .add_extension(issued_by, critical=False)
        .sign(signs, hashes.SHA256())
    )
    return serving.public_bytes(_PEM) + _private(key)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(_PEM, form, plain)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now_us: int,
    before: int,
    seconds: int,
) -> x509.CertificateBuilder:
    begins = now_us - before * SECOND_US
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_utc(begins))
        .not_valid_after(_utc(now_us + seconds * SECOND_US))
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


def _constraint(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_network(text))
    except ValueError:
        return x509.DNSName(text)


def _utc(us: int) -> datetime:
    # Certificates know whole seconds.
    return _EPOCH + timedelta(seconds=us // SECOND_US)


def _us(moment: datetime) -> int:
    return (moment.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)


def _write(path: Path, content: bytes) -> None:
    """Write all of it or nothing, never readable by others."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, path)


def ends_us(path: Path) -> list[int]:
    """The end times of a file's certificates, soonest first; empty if it cannot be read. Raises CertificateError."""
    try:
        found = x509.load_pem_x509_certificates(_content(path))
        return sorted(_us(one.not_valid_after_utc) for one in found)
    except ValueError:
        # The server of the file judges whether it can be used.
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
