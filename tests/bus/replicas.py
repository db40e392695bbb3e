"""Three replicated nats-servers, to be killed one by one."""

import socket
import subprocess

from bus.embedded import bundled_binary


class ThreeServers:
    """A cluster of three nats-servers on loopback, sync always."""

    def __init__(self, folder):
        self.folder = folder
        self.ports, self.monitors, routes = ([free_port() for _ in range(3)] for _ in range(3))
        self.processes = [None] * 3
        joined = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
        for n in range(3):
            (folder / f"{n}.conf").write_text(
                f'server_name: n{n}\nlisten: "127.0.0.1:{self.ports[n]}"\n'
                f'http: "127.0.0.1:{self.monitors[n]}"\nlog_file: "{folder}/{n}.log"\n'
                f'jetstream {{ store_dir: "{folder}/{n}", sync_interval: always }}\n'
                f'cluster {{ name: c, listen: "127.0.0.1:{routes[n]}", routes: [{joined}] }}\n'
            )
            self.start(n)

    def start(self, n):
        command = [bundled_binary(), "-c", self.folder / f"{n}.conf"]
        self.processes[n] = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def kill(self, n):
        self.processes[n].kill()
        self.processes[n].wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
