"""A webhook on a port of this machine, with certificates of its own, for tests that connect to it."""

import asyncio
import contextlib
import datetime
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bus.clock import SECOND_US, SystemClock
from reactors.webhook.certificates import LIFE_SECONDS, OwnCertificates
from reactors.webhook.rotation import Rotation
from reactors.webhook.server import ServerSettings, WebhookServer
from tests.benchmarks.reviews import Target

#: Seconds from the making of a certificate to its renewal.
DUE = LIFE_SECONDS * 2 // 3


class Clock:
    """Stands until it is moved; begins just before the first certificate is due, in the machine's time.

    So both the first certificate and the next one are valid for those who look at the machine's clock.
    """

    def __init__(self, us=None):
        self.us = SystemClock().now_us() - DUE * SECOND_US if us is None else us

    def now_us(self):
        return self.us

    def after(self, seconds):
        self.us += seconds * SECOND_US


class Webhook:
    """What :func:`serving` gives: the server, its rotation, and the authorities that were told so far."""

    def __init__(self, folder: Path, app, clock, client_ca=None, **settings):
        certificates = OwnCertificates(folder / "certificates", ("127.0.0.1",), clock)
        self.clock = clock
        self.ca_file = folder / "trusted.pem"
        self.rotation = Rotation(certificates, self.trust, client_ca)
        where = ServerSettings("127.0.0.1", 0, drain_seconds=0.5, **settings)
        self.server = WebhookServer(app, where, self.rotation.begin())
        self.bundles = []
        #: Called with each bundle, as an API server is told.
        self.tell = None

    async def trust(self, bundle):
        self.bundles.append(bundle)
        self.ca_file.write_bytes(bundle)
        if self.tell is not None:
            await self.tell(bundle)

    @property
    def url(self):
        return f"https://127.0.0.1:{self.server.port}"

    async def served(self):
        """The certificate that a new connection is shown."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        _, writer = await asyncio.open_connection("127.0.0.1", self.server.port, ssl=context)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return x509.load_der_x509_certificate(shown)

    def target(self, certificate=""):
        """For the load generator."""
        return Target(f"{self.url}/admit", str(self.ca_file), str(certificate))


@contextlib.asynccontextmanager
async def serving(folder, app, *, client_ca=None, **settings):
    """A running webhook, whose first authority has been told. More settings are those of its server."""
    webhook = Webhook(folder, app, Clock(), client_ca, **settings)
    await webhook.server.start()
    try:
        await webhook.rotation.turn()
        yield webhook
    finally:
        await webhook.server.stop()


def client_certificate(path, *alternatives):
    """Writes a client's certificate and key, which is its own authority; the path again.

    It is for the file's name, and for these alternative names.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, path.stem)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(one) for one in alternatives]), False
        )
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(certificate.public_bytes(pem) + private)
    return path
