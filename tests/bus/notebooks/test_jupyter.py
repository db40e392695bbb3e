"""A real jupyter-server with ipykernel: what the adapter and the reader see of it."""

import os
import signal

import psutil
import pytest
from msgspec.structs import replace

from bus.clock import SystemClock
from tests.bus.notebooks.notebooks import SECOND, jupyter, sampler, until
from tests.cluster.pausing import pause

pytestmark = [pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(120)]


def now():
    return SystemClock().now_us()


async def evidence_of(server):
    """The evidence by source."""
    _, found = await sampler().look(server.peer)
    return {evidence.source: evidence for evidence in found}


async def kernels_of(server, seen=lambda evidence: True):
    async def look():
        return (await evidence_of(server))["jupyter_kernels"]

    return await until(look, seen)


@pytest.fixture
async def server(tmp_path):
    async with jupyter(tmp_path) as found:
        yield found


async def test_a_server_without_kernels_is_readable_and_names_no_activity(server):
    found = await evidence_of(server)

    assert {"jupyter_kernels": ("ok", None), "jupyter_terminals": ("ok", None)} == {
        source: (e.outcome, e.active_us) for source, e in found.items()
    }


async def test_an_idle_kernel_tells_when_it_was_last_active(server):
    tab = await server.run(await server.kernel(), "1 + 1")
    tab.close()

    idle = await kernels_of(server, lambda e: e.active_us and not e.busy and not e.connected)

    assert (False, False, 1) == (idle.busy, idle.connected, idle.counters["kernels"])
    assert now() - 30 * SECOND < idle.active_us <= now()


async def test_a_silent_busy_cell_is_busy_with_the_browser_closed(server):
    tab = await server.run(await server.kernel(), "import time; time.sleep(60)")
    await kernels_of(server, lambda e: e.busy)
    tab.close()

    busy = await kernels_of(server, lambda e: not e.connected)

    assert (True, False) == (busy.busy, busy.connected)


async def test_a_printing_cell_is_busy(server):
    await server.run(
        await server.kernel(), "import time\nfor n in range(600): print(n); time.sleep(.1)"
    )

    assert (await kernels_of(server, lambda e: e.busy)).busy


async def test_an_open_notebook_is_presence(server):
    await server.run(await server.kernel(), "1")

    idle = await kernels_of(server, lambda e: e.active_us and e.connected)

    assert (True, False) == (idle.connected, idle.busy)


async def test_a_kernel_that_nobody_connected_to_is_starting_since_its_start(server):
    before = now()
    await server.kernel()

    starting = await kernels_of(server)

    assert (False, None) == (starting.busy, starting.active_us)
    assert before - SECOND < starting.starting_since_us <= now()


async def test_a_killed_kernel_does_not_pass_for_a_busy_one_for_ever(server):
    tab = await server.run(await server.kernel(), "import time; time.sleep(60)")
    await kernels_of(server, lambda e: e.busy)
    tab.close()
    for child in psutil.Process(server.process.pid).children(recursive=True):
        if "ipykernel_launcher" in " ".join(child.cmdline()):
            os.kill(child.pid, signal.SIGKILL)

    # A server that is slow says for a moment that the new kernel starts, and that the old one is busy.
    restarted = await kernels_of(server, lambda e: e.starting_since_us is not None and not e.busy)

    assert restarted.outcome == "ok"
    assert restarted.starting_since_us <= now()


async def test_a_terminal_alone_is_activity(server):
    before = now()
    await server.call("POST", "terminals", b"{}")

    found = (await evidence_of(server))["jupyter_terminals"]

    assert (1, "ok") == (found.counters["terminals"], found.outcome)
    assert before - SECOND < found.active_us <= now()


async def test_looking_does_not_count_as_activity(server):
    before = (await server.call("GET", "status"))["last_activity"]
    for _ in range(3):
        await evidence_of(server)

    assert before == (await server.call("GET", "status"))["last_activity"]


async def test_a_token_and_a_base_path_are_used(tmp_path):
    async with jupyter(tmp_path, token="t0ken", base_path="/notebook/team-a/nb/") as server:
        assert "ok" == (await kernels_of(server)).outcome


async def test_without_the_token_the_server_refuses(tmp_path):
    async with jupyter(tmp_path, token="t0ken") as server:
        server.peer = replace(server.peer, token="")

        refused = await kernels_of(server)

        assert ("refused", "http_403") == (refused.outcome, refused.fault)


async def test_without_the_base_path_nothing_is_found(tmp_path):
    async with jupyter(tmp_path, base_path="/nb/") as server:
        server.peer = replace(server.peer, base_path="/")

        missed = await kernels_of(server)

        assert ("unreachable", "http_404") == (missed.outcome, missed.fault)


async def test_a_stopped_server_is_unreachable(server):
    server.close()

    stopped = await kernels_of(server)

    assert ("unreachable", "no_connection") == (stopped.outcome, stopped.fault)


async def test_a_frozen_server_times_out(server):
    pause(server.process.pid)

    frozen = await kernels_of(server)

    assert ("unreachable", "timed_out") == (frozen.outcome, frozen.fault)
