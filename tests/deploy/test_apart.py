"""Parts of `bursar up` as processes of their own: one does each, another takes over, and who lost its turn writes nothing more."""

import asyncio
import threading
from contextlib import AsyncExitStack, suppress
from functools import partial
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from bus.embedded import EmbeddedServer
from bus.errors import ClusterUnavailableError
from bus.jetstream import JetStream
from bus.kube.client import Access, connect
from bus.streams import history
from bus.waiting import beside
from deploy.api.serving import answering
from deploy.cli.program.program import run_command
from deploy.errors import LedgerBusyError, LostLockError
from deploy.runtime import locking
from deploy.runtime.apart import _asking, act
from deploy.runtime.ledgers import ledger
from deploy.runtime.locking import ACTING, LEDGER, HeldLock, in_turn, writer_lock
from deploy.runtime.service import serve
from deploy.runtime.watch import Following
from deploy.settings.shape import Settings
from projections.cluster import POD
from projections.engine.store import engine
from tests.bus.replicas import free_port
from tests.deploy.locks import Looks, kubeconfig


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(locking, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(locking, "LOOK_SECONDS", 0.01)


@pytest.fixture
def places(request, tmp_path):
    """Two engines of one ledger, as two processes have them, and its URL."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    made = [engine(url), engine(url)]
    yield url, *made
    for one in made:
        one.dispose()


both = pytest.mark.parametrize(
    "places", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True
)


@both
async def test_a_second_process_is_in_reserve_and_goes_on_when_the_first_has_ended(places, quick):
    url, first, second = places
    told, order, waits = [], [], asyncio.Event()

    def tell(text):
        told.append(text)
        waits.set()

    async def after():
        async with in_turn(url, second, "act", ACTING, tell):
            order.append("second")

    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        async with in_turn(url, first, "act", ACTING, told.append):
            tasks.create_task(after())
            await waits.wait()
            order.append("first")

    assert order == ["first", "second"]
    (said,) = told
    assert said.startswith("waiting in reserve: takes over when ")
    assert "process" in said or "session of the database" in said
    assert said.endswith(" ends; Ctrl-C ends the wait")


@both
def test_one_process_may_write_the_ledger_while_another_one_acts(places):
    url, first, second = places
    with writer_lock(url, first, "ledger", LEDGER), writer_lock(url, second, "act", ACTING):
        for part, other in ((LEDGER, second), (ACTING, first)):
            words = "decides and acts" if part == ACTING else "writes this ledger"
            with pytest.raises(LedgerBusyError, match=words), writer_lock(url, other, "up", part):
                pass


@pytest.mark.postgres
@pytest.mark.parametrize("places", ["postgresql"], indirect=True)
async def test_who_lost_its_session_ends_and_the_next_takes_over(places, quick):
    """PostgreSQL ends the session of a machine that is silent; here an administrator does."""
    url, first, second = places
    async with asyncio.timeout(10), AsyncExitStack() as stack:
        with pytest.raises(BaseExceptionGroup) as caught:
            async with in_turn(url, first, "act", ACTING, print):
                with second.connect() as connection:
                    found = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 'bursar_acting_lock'::regclass"
                    connection.execute(sa.text(found))
                await stack.enter_async_context(in_turn(url, second, "act", ACTING, print))
                await asyncio.Event().wait()
        assert caught.group_contains(LostLockError)


async def test_two_who_ask_at_once_are_answered_one_after_the_other():
    """A session of a database takes one question at a time."""
    meeting, met = threading.Barrier(2), []

    def look():
        with suppress(threading.BrokenBarrierError):
            met.append(meeting.wait(0.05))

    looks = Looks()
    lock = HeldLock(look, looks.clock)
    looks.seconds = 60
    await asyncio.gather(lock.confirm(), lock.look())

    assert met == []


async def test_after_a_pause_it_looks_before_it_goes_on():
    looks = Looks()
    lock = HeldLock(looks, looks.clock)
    for seconds in (1, 4, 6, 7, 60):
        looks.seconds = seconds
        await lock.confirm()

    assert looks.number == 2


async def test_what_is_lost_stays_lost_though_the_database_is_back():
    """Its driver connects anew by itself, to a session that holds nothing."""
    looks = Looks(is_lost=True)
    lock = HeldLock(looks, looks.clock)
    with pytest.raises(LostLockError):
        await lock.look()
    looks.is_lost = False
    for ask in (lock.confirm, lock.look):
        with pytest.raises(LostLockError):
            await ask()


async def test_nothing_is_sent_to_the_cluster_once_the_lock_is_lost(tmp_path):
    """Neither a patch nor an eviction; what only reads is asked all the same."""
    looks = Looks(is_lost=True)
    lock = HeldLock(looks, looks.clock)
    cluster = await connect(Access(str(kubeconfig(tmp_path))))
    cluster.fence, looks.seconds = lock.confirm, 60
    writes = (
        lambda: cluster.patch("/apis/batch/v1/namespaces/a/jobs/b", []),
        lambda: cluster.evict("a", "b", uid="u"),
        lambda: cluster.bind("a", "b", uid="u", node="n", annotations={}),
        lambda: cluster.delete("/api/v1/namespaces/a/pods/b", uid="u"),
    )
    try:
        for write in writes:
            with pytest.raises(LostLockError):
                await write()
        with pytest.raises(ClusterUnavailableError):
            await cluster.get("/api/v1/namespaces/a/pods/b")
    finally:
        await cluster.close()
    assert looks.number == 1


@pytest.mark.nats
async def test_a_word_reaches_the_other_processes_and_no_history(tmp_path):
    async with EmbeddedServer(tmp_path) as server, AsyncExitStack() as stack:
        transports = []
        for _ in range(3):
            found = await JetStream.connect(
                server.url, history(replicas=1), credentials=server.credentials
            )
            stack.push_async_callback(found.close)
            transports.append(found)
        heard, other = asyncio.Queue(), []
        await transports[0].subscribe("relist-a > b", heard.put_nowait)
        await transports[1].subscribe("relist-c", other.append)
        for one in transports:
            # The server has answered, so it knows who hears what.
            await one.head()
        await transports[2].announce("relist-a > b", "Job")
        await transports[2].announce("relist-a > b", "é" * 1000)
        async with asyncio.timeout(5):
            assert await heard.get() == "Job"
            assert len(await heard.get()) == 256
        assert other == []
        assert (await transports[0].head()).last_sequence == 0


@pytest.mark.nats
async def test_who_watches_lists_what_who_acts_waits_for(tmp_path):
    """Another word, of whomever, asks for nothing."""
    listed = asyncio.Queue()
    reflectors = {"pods": SimpleNamespace(relist=listed.put_nowait)}
    async with EmbeddedServer(tmp_path) as server, AsyncExitStack() as stack:
        watching, acting = [
            await JetStream.connect(server.url, history(replicas=1), credentials=server.credentials)
            for _ in range(2)
        ]
        stack.push_async_callback(watching.close)
        stack.push_async_callback(acting.close)
        await watching.subscribe("relist-c", Following(None, {}, reflectors).relist)
        await watching.head()
        asked = asyncio.Queue()
        for word in ("Job", "\0", "x" * 9999, POD):
            asked.put_nowait(word)
        async with beside(_asking(SimpleNamespace(transport=acting), "relist-c", asked)):
            async with asyncio.timeout(5):
                assert await listed.get() == "settle"
        assert listed.empty()


@pytest.mark.nats
@pytest.mark.parametrize(
    ("part", "last_word"), [(act, "acting"), (partial(serve, answering=answering), "ask:")]
)
async def test_who_acts_shows_figures_without_admission(part, last_word, tmp_path):
    """The alert `BursarNobodyActs` rests on them."""
    async with EmbeddedServer(tmp_path / "nats") as server:
        user, password = server.credentials
        settings = Settings(
            data=tmp_path / "data",
            bus={"url": server.url.replace("//", f"//{user}:{password}@"), "monitor_urls": [server.monitor_url]},
            cluster={"kubeconfig": str(kubeconfig(tmp_path))},
            admission={"mode": "off", "health_host": "127.0.0.1", "health_port": free_port()},
        )  # fmt: skip
        with ledger(settings):
            pass
        said = asyncio.Queue()
        screen = SimpleNamespace(tell=said.put_nowait, show=lambda _: None)
        async with asyncio.timeout(20), beside(part(settings, screen)):
            while await said.get() != last_word:
                pass
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", settings.admission.health_port
            )
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            text = (await reader.read()).decode()
            writer.close()

    assert "\nbursar_effects_outstanding 0" in text


@pytest.mark.parametrize("part", ["watch", "ledger", "act"])
def test_a_part_needs_a_bus_that_does_not_end_with_it(part, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path)))

    assert run_command(["--data", str(tmp_path / "data"), part]) == 2
    assert f"`bursar {part}` needs a bus of its own" in capsys.readouterr().err
