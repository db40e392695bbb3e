"""The embedded server: starts fast, is safe, comes back, ends with us, and shares its folder with nobody."""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from bus.embedded import EmbeddedServer, bundled_binary, running
from bus.envelope import Event
from bus.errors import BusUnavailableError, PermissionDeniedError, PublishUnknownError
from bus.jetstream import JetStream, require_safe
from bus.jetstream.connection import ApiError, Connection
from bus.jetstream.guard import varz_of
from bus.jetstream.system_account import server_state
from bus.streams import history
from tests.cluster.pausing import pause
from tests.disks import fill, small_disk

pytestmark = pytest.mark.nats

#: A process that starts a server and then waits to be killed.
HOLDER = """
import asyncio, sys
from pathlib import Path
from bus.embedded import EmbeddedServer
async def main():
    server = EmbeddedServer(Path(sys.argv[1]))
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.fixture
async def server(tmp_path):
    async with EmbeddedServer(tmp_path) as server:
        yield server


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the server of this folder; its server's pid."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        process.server_pid = int(process.stdout.readline())
        yield process
        process.kill()


def said(number):
    return Event("c1", "pod.observed", "p", f"uid/{number}", "watch", 1_700_000_000_000_000, b"{}")


async def test_a_connection_tells_when_it_will_never_come_back(tmp_path):
    """While the server is away it tries again and again, until something ends that: here it forgets which servers there are."""
    async with EmbeddedServer(tmp_path) as server:
        client = await JetStream.connect(server.url, history(), credentials=server.credentials)
        assert not client.given_up
    try:
        async with asyncio.timeout(10):
            while client.connected:
                await asyncio.sleep(0.02)
        assert not client.given_up

        client._connection._client._server_pool.clear()
        async with asyncio.timeout(10):
            while not client.given_up:
                await asyncio.sleep(0.02)
    finally:
        await client.close()


async def gone(pid, seconds=5.0):
    """Whether the process ends in time; a zombie has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        await asyncio.sleep(0.02)
    return False


async def test_what_was_said_is_there_after_a_restart(tmp_path):
    async with EmbeddedServer(tmp_path) as server:
        first = await JetStream.connect(server.url, history(), credentials=server.credentials)
        await first.publish([said(1), said(2)])
        before = await first.head()
        await first.close()
    async with EmbeddedServer(tmp_path) as server:
        second = await JetStream.connect(server.url, history(), credentials=server.credentials)
        after = await second.head()
        await second.close()

    assert after == before
    assert after.last_sequence == 2


async def test_it_passes_its_own_guard(server):
    transport = await JetStream.connect(server.url, history(), credentials=server.credentials)
    lines = await transport.guard(server.monitor_url)
    await transport.close()

    require_safe(lines)
    assert {line.state for line in lines} == {"OK"}


async def test_it_listens_on_loopback_only(server):
    assert server.url.startswith("nats://127.0.0.1:")


async def test_it_has_no_monitoring_port(server):
    """It would ask for no log-in, and serve `/debug/vars`."""
    (ports,) = server.folder.glob("*.ports")

    assert json.loads(ports.read_text()) == {"nats": [server.url]}
    assert await varz_of(server.url.replace("nats:", "http:"), None) is None
    assert (await varz_of(server.monitor_url, None))["jetstream"]["config"]["sync_always"]


@pytest.mark.parametrize(
    "question", ["EXPVARZ", "CONNZ", "SUBSZ", "JSZ", "RELOAD", "KICK", "ACCOUNTZ"]
)
async def test_the_user_that_asks_for_the_state_asks_for_nothing_else(server, question):
    assert await server_state(server.monitor_url, question) is None


async def test_only_its_own_user_is_told_the_state(server):
    user, password = server.credentials
    for login in (f"{user}:{password}", "status:wrong", "status:"):
        url = server.url.replace("//", f"//{login}@")
        assert await server_state(url, "VARZ") is None


async def test_the_user_that_asks_for_the_state_reads_and_writes_no_history(server):
    parts = urlsplit(server.monitor_url)
    connection = await Connection.open(server.url, credentials=(parts.username, parts.password), api_seconds=0.5)  # fmt: skip
    for subject in ("$JS.API.STREAM.NAMES", "$JS.API.INFO", "bursar.c.pod.observed.x"):
        with pytest.raises((PermissionDeniedError, BusUnavailableError)):
            await connection.request(subject, b"")
    await connection.close()


@pytest.mark.parametrize("name", ["server.conf", "address.json"])
async def test_files_with_passwords_are_private(server, name):
    assert stat.S_IMODE((server.folder / name).stat().st_mode) == 0o600


async def test_passwords_are_not_shown(server):
    address = server.address
    for password in (address.password, address.recovery_password, address.status_password):
        assert len(password) > 20 and password not in repr(address)
    assert server.address.password not in server.url


async def test_it_lets_nobody_in_without_the_password(server):
    with pytest.raises(PermissionDeniedError):
        await JetStream.connect(server.url, history(), credentials=("bursar", "guess"))


async def test_only_recovery_may_edit_history(server):
    transport = await JetStream.connect(server.url, history(), credentials=server.credentials)
    await transport.publish([said(1)])
    bursar = await Connection.open(server.url, credentials=server.credentials, api_seconds=1)
    verbs = ("DELETE", "PURGE", "UPDATE", "RESTORE", "MSG.DELETE")

    tries = [bursar.ask(f"STREAM.{verb}.HISTORY", b'{"seq":1}') for verb in verbs]
    refused = await asyncio.gather(*tries, return_exceptions=True)

    assert [type(error) for error in refused] == [PermissionDeniedError] * len(verbs)
    assert (await transport.head()).last_sequence == 1
    await bursar.close()
    await transport.close()


async def test_recovery_may_delete_a_stream(server):
    recovery = await Connection.open(
        server.url, credentials=("recovery", server.address.recovery_password)
    )
    with pytest.raises(ApiError, match="stream not found"):
        await recovery.ask("STREAM.DELETE.HISTORY")
    await recovery.close()


async def test_a_second_process_finds_the_address(server, tmp_path):
    assert running(tmp_path) == server.address


async def test_no_address_where_nothing_runs(tmp_path):
    assert running(tmp_path) is None
    async with EmbeddedServer(tmp_path):
        pass
    assert running(tmp_path) is None


async def test_starting_and_stopping_twice_is_fine(tmp_path):
    server = EmbeddedServer(tmp_path)
    await server.start()
    await server.start()
    pid = server.pid
    await server.stop()
    await server.stop()

    assert await gone(pid)


async def test_a_killed_server_comes_back_on_the_same_ports(server):
    transport = await JetStream.connect(server.url, history(), credentials=server.credentials)
    address, pid = server.address, server.pid
    await transport.publish([said(1)])

    os.kill(pid, signal.SIGKILL)
    sequences = await transport.publish([said(1), said(2)])
    await transport.close()

    assert sequences == [1, 2]
    # It answers a moment before it is known to be whole.
    async with asyncio.timeout(30):
        while not server.restarts:
            await asyncio.sleep(0.01)
    assert server.restarts == 1 and server.pid not in (0, pid)
    assert msgspec.structs.replace(server.address, pid=0) == msgspec.structs.replace(address, pid=0)


async def test_the_folder_belongs_to_one_process(holder, tmp_path):
    with pytest.raises(BusUnavailableError) as refused:
        await EmbeddedServer(tmp_path).start()

    assert refused.value.pid == str(holder.pid)


async def test_the_server_ends_when_its_parent_is_killed(holder, tmp_path):
    holder.kill()
    ended = await gone(holder.server_pid)

    assert ended
    async with EmbeddedServer(tmp_path) as server:
        assert server.pid


async def test_a_frozen_server_can_be_stopped(tmp_path):
    server = EmbeddedServer(tmp_path)
    await server.start()
    pid = server.pid
    pause(pid)

    await server.stop()

    assert await gone(pid)


@pytest.mark.parametrize("binary", ["false", "sleep"])
async def test_a_server_that_does_not_come_up_is_an_error(tmp_path, binary):
    script = tmp_path / "server"
    script.write_text("#!/bin/sh\nexit 3\n" if binary == "false" else "#!/bin/sh\nexec sleep 30\n")
    script.chmod(0o700)

    with pytest.raises(BusUnavailableError, match="did not start"):
        await EmbeddedServer(tmp_path, binary=script).start(seconds=0.5)


async def test_the_error_shows_what_the_server_said(tmp_path):
    store = tmp_path / "bus" / "store"
    store.parent.mkdir()
    store.write_text("a file where a folder should be")

    with pytest.raises(BusUnavailableError) as failed:
        await EmbeddedServer(tmp_path).start()

    assert "storage directory is not a directory" in failed.value.log


def test_the_binary_comes_from_the_wheel():
    told = subprocess.run([bundled_binary(), "--version"], capture_output=True, check=True)

    assert b"nats-server" in told.stdout


def test_a_server_whose_owner_was_killed_counts_as_gone(tmp_path):
    killed = subprocess.Popen([sys.executable, "-c", "pass"])
    killed.wait()
    folder = tmp_path / "bus"
    folder.mkdir()
    address = {"url": "u", "password": "p", "recovery_password": "r"}
    (folder / "address.json").write_text(json.dumps({**address, "pid": os.getpid()}))
    (folder / "lock").write_text(f"{os.getpid()}\n")
    with (folder / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        owned = running(tmp_path)
        (folder / "lock").write_text(f"{killed.pid}\n")

        assert (True, None) == (owned is not None, running(tmp_path))


def test_a_server_of_the_container_before_counts_as_gone(tmp_path):
    """In a container every start has the same few process ids, so those of the one that was killed are alive again."""
    folder = tmp_path / "bus"
    folder.mkdir()
    address = {"url": "u", "password": "p", "recovery_password": "r"}
    (folder / "address.json").write_text(json.dumps({**address, "pid": os.getpid()}))
    (folder / "lock").write_text(f"{os.getpid()}\n")

    assert running(tmp_path) is None


@pytest.mark.timeout(120)
async def test_a_disk_that_was_full_is_written_again_once_there_is_room(tmp_path):
    """A nats-server refuses everything after one write that failed, until it starts again."""
    with small_disk(tmp_path / "disk", mib=64) as is_small:
        if not is_small:
            pytest.skip("nobody may mount a small disk here")
        async with EmbeddedServer(tmp_path / "disk" / "data") as server:
            bus = await JetStream.connect(server.url, history(), credentials=server.credentials)
            await bus.publish([said(0)])
            filling = tmp_path / "disk" / "filling"
            fill(filling)
            with pytest.raises((PublishUnknownError, BusUnavailableError)):
                for n in range(1, 200):
                    await bus.publish([said(n)])
            filling.unlink()
            async with asyncio.timeout(60):
                while True:
                    with contextlib.suppress(PublishUnknownError, BusUnavailableError):
                        sequences = await bus.publish([said(n) for n in range(200)])
                        break
            last = (await bus.head()).last_sequence
            await bus.close()

    assert (sequences, last) == (list(range(1, 201)), 200)
