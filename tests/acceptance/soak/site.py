"""One installation of apart processes beside a real API server, own NATS and own PostgreSQL, with a network that can be cut."""

import datetime
import ipaddress
import json
import os
import subprocess
import time
from contextlib import ExitStack
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.acceptance.admission_site import MANIFESTS, quota
from tests.acceptance.registering import allow_registration
from tests.acceptance.soak.buses import Nodes
from tests.acceptance.soak.parts import Parts, bursar
from tests.acceptance.soak.wires import Wire, balanced
from tests.cluster.processes import free_port
from tests.disks import small_disk

#: This checkout.
HERE = MANIFESTS.parents[1]
DISK_MIB = 384
#: All that a quota gives, in cores; what `queue` holds starts when there is room.
QUOTAS = {"team-a": 40, "team-b": 40, "team-q": 40}
CERTIFICATE_SECONDS = 7 * 86_400


def certificate(path, seconds):
    """A serving certificate of 127.0.0.1 that ends in so many seconds, with its key: its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bursar-webhook")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(seconds=seconds))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    draft = path.with_suffix(".draft")
    draft.write_bytes(made.public_bytes(pem) + private)
    draft.rename(path)


class Site:
    """Servers, wires and processes. ``clocks``: the file by which each process's clock is shifted."""

    def __init__(self, plane, folder, postgres_url, nodes=1):
        self.plane, self.folder, self.postgres_url = plane, folder, postgres_url
        self._nodes = nodes
        self.certificate = folder / "serving.pem"
        self.clocks = {}
        self._stack = ExitStack()

    def __enter__(self):
        with ExitStack() as stack:
            self._begin(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _begin(self, stack):
        self.disk = self.folder / "disk"
        self.has_disk = stack.enter_context(small_disk(self.disk, DISK_MIB))
        certificate(self.certificate, CERTIFICATE_SECONDS)
        for file in ("crds/bursar.io.yaml", "pods/namespace.yaml", "rbac"):
            self.plane.kubectl("apply", "-f", str(MANIFESTS / file))
        # Its certificates are their own authorities, and change.
        allow_registration(self.plane)
        url = urlsplit(self.postgres_url)
        socket_folder = parse_qs(url.query)["host"][0]
        self.store = self.disk / "nats"
        self.bus = Nodes(self.folder / "nats", self.store, self._nodes, stack)
        others = {
            "postgres": Wire(f"{socket_folder}/.s.PGSQL.5432"),
            "api": Wire(int(self.plane.url.rpartition(":")[2])),
        }
        for wire in others.values():
            stack.callback(wire.stop)
        self.wires = {"nats": self.bus.clients, **{name: [wire] for name, wire in others.items()}}
        user = url.netloc.partition("@")[0].partition(":")[0] or "postgres"
        self.ledger_url = f"postgresql+psycopg://{user}@127.0.0.1:{self.wires['postgres'][0].port}{url.path}"  # fmt: skip
        self._ports, self._coming = {}, {}
        self.url = f"https://127.0.0.1:{balanced(lambda: list(self._ports.values()), stack)}"
        self.parts = Parts(self.folder)
        stack.callback(self.parts.stop)
        self.bus.start(self.parts)

    def add(self, kind, number, account="", tree=HERE):
        """One more process of Bursar, of the checkout in ``tree``."""
        name = f"{kind}-{number}"
        environment = self.environment(name) | {"PYTHONPATH": str(tree)}
        if kind == "webhook":
            port = free_port()
            environment["BURSAR_ADMISSION__PORT"] = str(port)
            # The Service has it once it answers.
            self._coming[name] = port
        if account:
            environment["KUBECONFIG"] = str(self._kubeconfig(account))
        self.clocks[name] = self.folder / f"{name}.clock"
        self.parts.add(name, bursar(self.clocks[name], kind), environment)

    def serve(self, name):
        """The Service sends reviews there from now on, where it is a webhook."""
        if name in self._coming:
            self._ports[name] = self._coming.pop(name)

    def drain(self, name):
        """The Service sends no more reviews there."""
        self._ports.pop(name, None)

    def environment(self, name):
        """The settings of a process, with a data folder of its own."""
        return {
            "PATH": os.environ["PATH"], "HOME": str(self.folder),
            "BURSAR_DATA": str(self.disk / name), "BURSAR_BUS__URL": f"nats://127.0.0.1:{self.bus.port}",
            "BURSAR_BUS__MONITOR_URLS": json.dumps(self.bus.monitor_urls), "BURSAR_BUS__REPLICAS": str(self.bus.count),
            "BURSAR_LEDGER__URL": self.ledger_url, "BURSAR_ADMISSION__MODE": "enforce",
            "BURSAR_ADMISSION__HOST": "127.0.0.1", "BURSAR_ADMISSION__PORT": "0", "BURSAR_ADMISSION__SERVES": "false",
            "BURSAR_ADMISSION__URL": self.url, "BURSAR_ADMISSION__FAILURE_POLICY": "Fail",
            "BURSAR_ADMISSION__HEALTH_PORT": "0", "BURSAR_ADMISSION__CERTIFICATE": str(self.certificate),
            "BURSAR_ADMISSION__AUTHORITY": str(self.certificate),
        }  # fmt: skip

    def _kubeconfig(self, account):
        path = self.folder / f"{account}.kubeconfig"
        if not path.exists():
            token = self.plane.kubectl(
                "create", "token", account, "-n", "bursar-system", "--duration=8h"
            ).strip()
            text = self.plane.kubeconfig.read_text().replace(self.plane.token, token)
            url = f"https://127.0.0.1:{self.wires['api'][0].port}"
            path.write_text(text.replace(self.plane.url, url))
        return path

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def until(self, holds, seconds=120, what=""):
        """Wait; the ends of all logs where it takes too long."""
        ends = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > ends:
                logs = "\n".join(
                    f"--- {name}\n{self.log(name)[-1500:]}" for name in self.parts.parts
                )
                raise AssertionError(f"not within {seconds} s: {what}\n{logs}")
            time.sleep(0.3)

    def begin(self, tree=HERE):
        """Two of each process, of the checkout in ``tree``, and the quotas."""
        self.add("ledger", 0, tree=tree)
        self.until(lambda: "writing the ledger" in self.log("ledger-0"), what="the ledger")
        self.add("ledger", 1, tree=tree)
        for kind, account in (("watch", "bursar"), ("webhook", ""), ("act", "bursar-actor")):
            for number in range(2):
                self.add(kind, number, account, tree)
        for name in self.parts.named("webhook"):
            self.until(lambda name=name: "answering on" in self.log(name), what=name)
            self.serve(name)
        self.until(lambda: any("\nacting" in self.log(f"act-{n}") for n in range(2)), what="acting")
        for name, cores in QUOTAS.items():
            more = {"queue": {"hold": True}} if name == "team-q" else {}
            body = quota(name, {"limits.cpu": str(cores)}, **more)
            self.until(lambda body=body: self._applied(body), what="the quotas")
        self.until(lambda: all(self.used(name) == 0 for name in QUOTAS), what="status of quotas")
        self.parts.watch()

    def _applied(self, body):
        try:
            return self.plane.kubectl("apply", "-f", "-", input=json.dumps(body))
        except RuntimeError:
            return False

    def used(self, name):
        """Cores that a quota's status says are used; None where it says nothing."""
        found = self.plane.api.request("GET", f"/apis/bursar.io/v1alpha1/bizgroupresourcequotas/{name}")  # fmt: skip
        said = found.get("status", {}).get("used", {}).get("limits.cpu")
        return None if said is None else int(said)

    def ask(self, *arguments, name="ledger-0", tree=HERE):
        """The exit code of a command of the checkout in ``tree``, and what it says, with the settings of a process."""
        done = subprocess.run(
            bursar(os.devnull, *arguments), env=self.environment(name) | {"PYTHONPATH": str(tree)},
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr
