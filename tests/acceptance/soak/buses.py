"""Own NATS for a soak: one node behind a wire, or three, each behind wires to its clients and to each of the others."""

import os
from itertools import permutations

from bus.embedded import bundled_binary
from tests.acceptance.soak.wires import Wire, balanced
from tests.cluster.processes import free_port


class Nodes:
    """``count`` nats-servers as docs/reliability.md wants them. ``clients``: the wire before each."""

    def __init__(self, folder, store, count, stack):
        self.count, self._folder, self._store = count, folder, store
        ports, monitors, routes = ([free_port() for _ in range(count)] for _ in range(3))
        self.clients = [Wire(port) for port in ports]
        self.routes = {(a, b): Wire(routes[b]) for a, b in permutations(range(count), 2)}
        for wire in (*self.clients, *self.routes.values()):
            stack.callback(wire.stop)
        self.monitor_urls = [f"http://127.0.0.1:{port}" for port in monitors]
        #: A name for all of them, as a Service has it.
        self.port = balanced(lambda: [one.port for one in self.clients], stack) if count > 1 else self.clients[0].port  # fmt: skip
        folder.mkdir()
        for n in range(count):
            (folder / f"{n}.conf").write_text(self._configuration(n, ports[n], monitors[n], routes[n]))  # fmt: skip

    def _configuration(self, n, port, monitor, route):
        text = (
            f'server_name: n{n}\nlisten: "127.0.0.1:{port}"\nhttp: "127.0.0.1:{monitor}"\nmax_payload: 1048576\n'
            f'client_advertise: "127.0.0.1:{self.clients[n].port}"\n'
            f'jetstream {{ store_dir: "{self._store}-{n}", sync_interval: always }}\n'
        )
        if self.count == 1:
            return text
        mine = [wire.port for (a, _), wire in self.routes.items() if a == n]
        others = ", ".join(f'"nats://127.0.0.1:{one}"' for one in mine)
        # Nobody listens where it is advertised, so that no node goes around the wires.
        return text + (
            f'cluster {{ name: soak, listen: "127.0.0.1:{route}", advertise: "127.0.0.1:1", routes: [{others}] }}\n'
        )

    def start(self, parts):
        """Each as a part of the installation. One alone has the probe of docs/limits.md: it refuses all after a full disk.

        Of three, one that is cut off says that it is not well, too; it needs the others, not a new start.
        """
        environment = {"PATH": os.defpath, "HOME": str(self._folder)}
        for n in range(self.count):
            command = [str(bundled_binary()), "-c", str(self._folder / f"{n}.conf")]
            health = f"{self.monitor_urls[n]}/healthz" if self.count == 1 else ""
            parts.add(f"nats-{n}", command, environment, health)

    def wires_of(self, n):
        """All that connects one node with clients and with the others."""
        return [self.clients[n], *(wire for pair, wire in self.routes.items() if n in pair)]
