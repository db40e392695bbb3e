"""How the parts of one control plane trust each other: certificates, keys, tokens, kubeconfigs.

Made new for each control plane and worth nothing after it. Clients come by static token rather
than by client certificate, so that a test can send a request with nothing but a header.
"""

import datetime
import ipaddress
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

USERS = {
    "admin": ("kubernetes-admin", "system:masters"),
    # The controllers act through service accounts of their own, as kubeadm sets them up, so that
    # webhooks see the same user names here as in a real cluster.
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kwok": ("kwok", "system:masters"),
}
"""File name of the kubeconfig: user name and group."""


@dataclass(frozen=True)
class Credentials:
    """The files of one control plane's folder, all written."""

    folder: Path
    token: str

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def server_certificate(self) -> Path:
        return self.folder / "server.crt"

    @property
    def server_key(self) -> Path:
        return self.folder / "server.key"

    @property
    def service_account_key(self) -> Path:
        return self.folder / "service-accounts.key"

    @property
    def service_account_public_key(self) -> Path:
        return self.folder / "service-accounts.pub"

    @property
    def token_file(self) -> Path:
        return self.folder / "tokens.csv"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of one of USERS."""
        return self.folder / f"{user}.kubeconfig"


def issue(folder: Path, url: str) -> Credentials:
    """Credentials for an API server at `url` on the loopback address, written into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = {user: secrets.token_hex(16) for user in USERS}
    credentials = Credentials(folder, tokens["admin"])
    _write_certificates(credentials)
    lines = [f'{tokens[file]},{user},{user},"{group}"\n' for file, (user, group) in USERS.items()]
    _write_secret(credentials.token_file, "".join(lines).encode())
    for user, token in tokens.items():
        text = _kubeconfig(url, credentials.ca_file, user, token)
        _write_secret(credentials.kubeconfig(user), text.encode())
    return credentials


def _write_certificates(credentials: Credentials) -> None:
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bursar-test-ca")])
    # keyCertSign is spelt out because Python 3.13 verifies strictly (RFC 5280) by default.
    ca = (
        _certificate(ca_name, ca_name, ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    addresses: list[x509.GeneralName] = [
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.DNSName("localhost"),
        x509.DNSName("kubernetes.default.svc"),
    ]
    server = (
        _certificate(name, ca_name, key)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    credentials.ca_file.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    credentials.server_certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    _write_secret(credentials.server_key, _private(key))
    accounts = ec.generate_private_key(ec.SECP256R1())
    _write_secret(credentials.service_account_key, _private(accounts))
    credentials.service_account_public_key.write_bytes(
        accounts.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, key_cert_sign: bool, crl_sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    # SEC 1, not PKCS 8: the controller manager reads service account keys in this form only.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _kubeconfig(url: str, ca_file: Path, user: str, token: str) -> str:
    return json.dumps(  # JSON is YAML
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bursar-test",
            "clusters": [
                {
                    "name": "bursar-test",
                    "cluster": {"server": url, "certificate-authority": str(ca_file)},
                }
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [
                {"name": "bursar-test", "context": {"cluster": "bursar-test", "user": user}}
            ],
        },
        indent=1,
    )
