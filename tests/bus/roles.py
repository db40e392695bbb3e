"""A nats-server with the configuration that Bursar prints: TLS, and a user for each process."""

import json
import subprocess

from bus.embedded import bundled_binary
from bus.jetstream import JetStream, Tls
from bus.jetstream.rights import ROLES, configuration
from bus.streams import history
from tests.bus.authority import Authority
from tests.bus.replicas import free_port

PASSWORDS = {name: f"password-of-{name}" for name in (*ROLES, "status")}


class RoleServer:
    """Runs while it is entered. ``environment``: the variables of a process of Bursar."""

    def __init__(self, folder):
        self._folder, self._port = folder, free_port()
        self._authority = Authority(folder / "tls")
        self._client = self._authority.signed("bursar")
        cert, key = self._authority.signed("server")
        text = configuration()
        for said, here in (
            ("0.0.0.0:4222", f"127.0.0.1:{self._port}"),
            ("/data", f"{folder}/store"), ("/etc/nats/tls/tls.crt", str(cert)), ("/etc/nats/tls/tls.key", str(key)),
            ("/etc/nats/tls/ca.crt", str(self._authority.file)),
        ):  # fmt: skip
            assert text.count(f'"{said}"') == 1
            text = text.replace(said, here)
        (folder / "nats.conf").write_text(text)

    async def __aenter__(self):
        passwords = {f"BURSAR_{name.upper()}_PASSWORD": text for name, text in PASSWORDS.items()}
        command = [bundled_binary(), "-c", self._folder / "nats.conf"]
        self._process = subprocess.Popen(command, env=passwords, stderr=subprocess.DEVNULL)
        await (await self.connected("ledger", connect_seconds=20)).close()
        return self

    async def __aexit__(self, *_):
        self._process.kill()
        self._process.wait()

    async def connected(self, role, **more):
        """A transport of this user."""
        tls = Tls(self._authority.file, *self._client)
        return await JetStream.connect(
            f"nats://127.0.0.1:{self._port}", history(), credentials=(role, PASSWORDS[role]), tls=tls, **more,
        )  # fmt: skip

    @property
    def monitor_url(self):
        return f"tls://status:{PASSWORDS['status']}@127.0.0.1:{self._port}"

    def environment(self, role):
        cert, key = self._client
        return {
            "BURSAR_BUS__URL": f"tls://{role}:{PASSWORDS[role]}@127.0.0.1:{self._port}",
            "BURSAR_BUS__MONITOR_URLS": json.dumps([self.monitor_url]),
            "BURSAR_BUS__TLS_CA": str(self._authority.file), "BURSAR_BUS__TLS_CERT": str(cert), "BURSAR_BUS__TLS_KEY": str(key),
        }  # fmt: skip
