"""`bursar status` where the bus lost something, takes no writes, or does not run: the fault and the command that mends it."""

import http.server
import json
import shutil
import threading
from contextlib import contextmanager

import pytest

from bus.embedded import EmbeddedServer
from bus.envelope import to_line
from deploy.cli.program.exits import Exit
from tests.bus.damage import cut, half
from tests.deploy.ledgers import EVENTS, bursar, make_ledger, process

pytestmark = pytest.mark.nats
COUNT = len(EVENTS) + 1
DURABLE = {"jetstream": {"config": {"sync_always": True}}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A ledger beside the bus that it was folded from; no server runs."""
    folder = tmp_path_factory.mktemp("whole")
    file = folder / "events.ndjson"
    file.write_bytes(b"".join(to_line(event) + b"\n" for event in EVENTS))
    assert process("import", "events", file, "--data", folder / "data").returncode == 0
    return folder / "data"


@pytest.fixture
def data(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "data")


@pytest.fixture
def status(data, capsys):
    def asked(*options):
        capsys.readouterr()
        code = bursar("status", "--data", data, *options, "-o", "json")
        return code, json.loads(capsys.readouterr().out)

    return asked


def contents(folder):
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in folder.rglob("*")
        if "ledger.db" not in path.name
    }


def test_a_bus_that_does_not_run_is_read_without_a_server_and_without_a_write(
    data, status, monkeypatch
):
    """So it works on a read-only folder and on a full disk."""

    async def start(*_, **__):
        raise AssertionError("a server is started")

    monkeypatch.setattr(EmbeddedServer, "start", start)
    before = contents(data)
    code, found = status()

    assert (code, found["healthy"], found["ahead"], found["lag"]) == (0, True, 0, 0)
    assert found["sequence"] == found["projected"] == COUNT
    assert found["bus"]["running"] is False and contents(data) == before


@pytest.mark.parametrize("lost", ["bus", "bus/store", "bus/store/jetstream"])
def test_a_wiped_bus_is_a_fault_that_names_recover(lost, data, status, capsys):
    shutil.rmtree(data / lost)
    code, found = status()

    assert (code, found["healthy"]) == (Exit.UNHEALTHY, False)
    assert (found["sequence"], found["ahead"], found["lag"]) == (0, COUNT, None)
    assert "bursar recover" in found["bus"]["trouble"]
    assert bursar("status", "--data", data) == Exit.UNHEALTHY
    assert "recover" in capsys.readouterr().out


@pytest.mark.parametrize(("damage", "left"), [(cut, COUNT - 1), (half, None)])
def test_a_truncated_bus_is_a_fault_that_names_recover(damage, left, data, status):
    damage(data / "bus" / "store")
    code, found = status()

    assert (code, found["lag"]) == (Exit.UNHEALTHY, None)
    assert 0 < found["sequence"] == (left or found["sequence"]) < COUNT
    assert "bursar recover" in found["bus"]["trouble"]
    assert process("recover", "--yes", "--data", data).returncode == 0
    assert status()[0] == 0


async def test_a_running_bus_that_is_behind_its_ledger_is_a_fault(data):
    shutil.rmtree(data / "bus")
    async with EmbeddedServer(data):
        ended = process("status", "--data", data, "-o", "json")
    found = json.loads(ended.stdout)

    assert (ended.returncode, found["bus"]["running"]) == (Exit.UNHEALTHY, True)
    assert (found["ahead"], found["lag"]) == (COUNT, None)


def test_a_ledger_that_never_had_a_bus_here_is_no_fault(tmp_path, capsys):
    """A hub's, or one whose bus is elsewhere."""
    assert bursar("status", "--data", make_ledger(tmp_path)) == 0
    assert "no history in the data folder" in " ".join(capsys.readouterr().out.split())


@contextmanager
def health(content):
    """The monitoring port of a server that says this of its health."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(503)
            self.end_headers()
            told = content if self.path == "/healthz" else DURABLE
            self.wfile.write(json.dumps(told).encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"status": "unavailable", "error": "stream '$G > HISTORY' write error: no space left"}, "no space left"),
        ({"status": "error"}, "error"),
        ({"status": "ok"}, ""),
    ],
)  # fmt: skip
async def test_a_server_that_refuses_to_write_is_unhealthy(content, words, data):
    with health(content) as monitor:
        async with EmbeddedServer(data) as server:
            user, password = server.credentials
            ended = process(
                "status", "--data", data, "-o", "json",
                BURSAR_BUS__URL=server.url.replace("//", f"//{user}:{password}@"),
                BURSAR_BUS__MONITOR_URLS=json.dumps([monitor]),
            )  # fmt: skip
    found = json.loads(ended.stdout)

    assert (ended.returncode, found["healthy"]) == ((Exit.UNHEALTHY, False) if words else (0, True))
    assert words in found["bus"]["trouble"] and found["lag"] == 0


def test_a_server_that_cannot_be_reached_is_unhealthy(status, monkeypatch):
    monkeypatch.setenv("BURSAR_BUS__URL", "nats://127.0.0.1:1")
    code, found = status()

    assert (code, found["sequence"], found["lag"]) == (Exit.UNHEALTHY, None, None)
