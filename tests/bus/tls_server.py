"""A nats-server behind TLS that asks for a client's certificate, and a log-in."""

import signal
import subprocess

from bus.embedded import bundled_binary
from bus.jetstream import JetStream, Tls
from bus.streams import history
from tests.bus.replicas import free_port

LOGIN = ("bursar", "a-password-that-nobody-may-read")


class Server:
    """A nats-server that asks for a client's certificate, and a log-in."""

    def __init__(self, folder, authority):
        self.port, self.monitor = free_port(), free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._folder, self._authority, self._process = folder, authority, None

    def start(self):
        cert, key = self._authority.signed("server")
        (self._folder / "server.conf").write_text(
            f'listen: "127.0.0.1:{self.port}"\nhttp: "127.0.0.1:{self.monitor}"\n'
            f'jetstream {{ store_dir: "{self._folder}/store", sync_interval: always }}\n'
            f"authorization {{ user: {LOGIN[0]}, password: {LOGIN[1]} }}\n"
            f'tls {{ cert_file: "{cert}", key_file: "{key}", ca_file: "{self._authority.file}", verify: true }}\n'
        )
        command = [bundled_binary(), "-c", self._folder / "server.conf"]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def stop(self):
        self._process.kill()
        self._process.wait()

    def freeze(self):
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self._process.send_signal(signal.SIGCONT)

    def signed_by(self, authority):
        self._authority = authority


def ours(authority):
    return Tls(authority.file, *authority.signed("bursar"))


async def connected(url, tls):
    """A transport; a server that is not there yet is waited for."""
    return await JetStream.connect(url, history(), credentials=LOGIN, tls=tls, connect_seconds=20)
