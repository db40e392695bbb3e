"""A certificate authority for tests of TLS, and what it signs."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates for one day, all in files of ``folder``, which may be written over by another authority."""

    def __init__(self, folder, name="authority"):
        folder.mkdir(exist_ok=True)
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.file = folder / "ca.crt"
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        made = (
            self._begun(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
        )
        self._write(self.file, made)

    def signed(self, name, address="127.0.0.1"):
        """The files of a certificate for an address, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = self._begun(_named(name), key.public_key()).add_extension(names, critical=False)
        cert, key_file = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        self._write(cert, made.add_extension(signer, critical=False))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return cert, key_file

    def _begun(self, name, public_key):
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        )

    def _write(self, path, made):
        signed = made.sign(self._key, hashes.SHA256())
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def _named(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
