"""Who holds a lock and who is next: no two act at once, who lost a lock ends, and no schema changes under who writes."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

import migrations.schema
from bus.errors import ClusterUnavailableError, WrongClockError
from deploy.api.serving import answering
from deploy.cli.program.program import run_command
from deploy.errors import LedgerBusyError, LostLockError, OlderLedgerError
from deploy.runtime import apart, locking, reactors, service
from deploy.runtime.ledgers import held_ledger, joined_ledger
from deploy.runtime.locking import ACTING, LEDGER, HeldLock, in_turn, writer_lock
from deploy.settings.load import load
from projections.engine.store import engine
from tests.deploy.ledgers import make_ledger
from tests.deploy.locks import Looks, kubeconfig

QUIET = SimpleNamespace(tell=lambda _: None, show=lambda _: None)


def settings_in(folder):
    return load({"data": folder})


@pytest.mark.nats
@pytest.mark.parametrize("part", [LEDGER, ACTING])
async def test_up_ends_once_a_lock_is_lost(part, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path)))
    monkeypatch.setattr(locking, "LOOK_SECONDS", 0.01)
    found = locking.writer_lock

    @contextmanager
    def lost(url, made, purpose, taken=LEDGER):
        with found(url, made, purpose, taken) as lock:
            yield HeldLock(Looks(is_lost=True)) if taken == part else lock

    monkeypatch.setattr(locking, "writer_lock", lost)
    monkeypatch.setattr(service, "writer_lock", lost)
    with pytest.raises(BaseExceptionGroup) as caught:
        async with asyncio.timeout(20):
            await service.serve(settings_in(tmp_path / "data"), QUIET, answering=answering)
    assert caught.group_contains(LostLockError)


@pytest.mark.nats
async def test_up_asks_its_lock_before_each_write(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path)))
    following, clusters = service.following, []

    @asynccontextmanager
    async def kept(*arguments):
        async with following(*arguments) as followed:
            clusters.append(followed.cluster)
            yield followed

    class Enough(Exception):
        pass

    def tell(text):
        # The first word after the cluster is followed: nothing was written yet.
        if text.startswith("admission is"):
            raise Enough

    monkeypatch.setattr(service, "following", kept)
    with pytest.raises(BaseExceptionGroup) as caught:
        await service.serve(
            settings_in(tmp_path / "data"),
            SimpleNamespace(tell=tell, show=print),
            answering=answering,
        )
    assert caught.group_contains(Enough)
    assert [cluster.fence.__func__ for cluster in clusters] == [HeldLock.confirm]


@pytest.mark.simulated
async def test_who_acts_next_writes_nothing_while_the_one_before_may_believe_it_acts():
    now = asyncio.get_running_loop().time
    begun, looks = now(), Looks()
    before = HeldLock(looks, now)
    after = HeldLock(Looks(), now, rest_seconds=locking.HANDOVER_SECONDS)
    looks.is_lost = True
    # The last moment in which the one before still writes.
    await asyncio.sleep(locking.CONFIRMED_SECONDS)
    await before.confirm()
    believed = now()
    await asyncio.gather(after.confirm(), after.confirm())

    assert now() - begun >= locking.HANDOVER_SECONDS and now() - believed >= 5
    with pytest.raises(LostLockError):
        await before.confirm()
    ready = now()
    await after.confirm()
    assert now() == ready


@pytest.mark.postgres
def test_only_who_acts_by_a_session_rests(postgres_url):
    made = engine(postgres_url)
    try:
        for part, rests in ((LEDGER, False), (ACTING, True)):
            with writer_lock(postgres_url, made, "act", part) as lock:
                assert (lock._begins > lock._known) == rests
    finally:
        made.dispose()


def test_seconds_pass_while_the_machine_is_suspended(monkeypatch):
    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_BOOTTIME: 99.0}.__getitem__)

    assert HeldLock(lambda: None)._known == 99.0


async def test_a_database_that_does_not_answer_holds_up_nothing_else(tmp_path, monkeypatch):
    answers = threading.Event()

    @contextmanager
    def slow(*_):
        assert answers.wait(5)
        yield HeldLock(lambda: None)

    monkeypatch.setattr(locking, "writer_lock", slow)
    asyncio.get_running_loop().call_later(0.01, answers.set)
    async with in_turn("", None, "act", ACTING, print):
        pass


async def test_what_was_got_while_the_wait_was_cancelled_is_let_go(monkeypatch):
    begun, answers, order = asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    @contextmanager
    def slow(*_):
        loop.call_soon_threadsafe(begun.set)
        assert answers.wait(5)
        order.append("got")
        try:
            yield HeldLock(lambda: None)
        finally:
            order.append("let go")

    async def work():
        async with in_turn("", None, "act", ACTING, print):
            order.append("acts")

    monkeypatch.setattr(locking, "writer_lock", slow)
    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    loop.call_later(0.01, answers.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert order == ["got", "let go"]


def test_a_connection_is_given_up_after_a_while(monkeypatch):
    given = {}

    def create(*_, **options):
        given.update(options)
        raise sa.exc.OperationalError("", {}, Exception("no answer"))

    monkeypatch.setattr(sa, "create_engine", create)
    postgres = SimpleNamespace(dialect=SimpleNamespace(name="postgresql"), url="")
    with pytest.raises(sa.exc.OperationalError), writer_lock("", postgres, "act"):
        pass
    assert given["connect_args"]["connect_timeout"] == 10


async def test_no_schema_changes_while_another_process_writes_the_ledger(
    tmp_path, monkeypatch, capsys
):
    data, kept = tmp_path / "data", tmp_path / "kept"
    data.mkdir(mode=0o700)
    assert run_command(["backup", str(kept), "--data", str(make_ledger(data))]) == 0
    capsys.readouterr()
    made, settings = engine(f"sqlite:///{data / 'ledger.db'}"), settings_in(data)
    with made.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")

    def upgrade(*_):
        raise AssertionError("the schema is changed")

    monkeypatch.setattr(migrations.schema, "upgrade", upgrade)
    with writer_lock(settings.ledger_url, made, "ledger"):
        with pytest.raises(LedgerBusyError):
            await service.serve(settings, QUIET, answering=answering)
        with pytest.raises(LedgerBusyError), held_ledger(settings, "restore"):
            pass
        with pytest.raises(OlderLedgerError), joined_ledger(settings, "budget credit"):
            pass
        assert await asyncio.to_thread(run_command, ["restore", str(kept), "--data", str(data)])
        assert "being written by bursar ledger" in capsys.readouterr().err
    made.dispose()


def test_who_joins_gets_the_ledger_as_it_is_and_who_writes_it(tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    made, settings = engine(f"sqlite:///{make_ledger(data) / 'ledger.db'}"), settings_in(data)
    with writer_lock(settings.ledger_url, made, "up"):
        with joined_ledger(settings, "budget credit") as (store, held):
            assert "bursar up" in held and store.checkpoint("").sequence > 0
    with writer_lock(settings.ledger_url, made, "import"), pytest.raises(LedgerBusyError):
        with joined_ledger(settings, "budget credit"):
            pass
    with joined_ledger(settings, "budget credit") as (_, held):
        assert isinstance(held, HeldLock)
    made.dispose()


@pytest.mark.simulated
async def test_who_acts_measures_the_api_servers_clock_each_minute_whatever_it_answers():
    now = asyncio.get_running_loop().time
    begun, asked = now(), []

    async def page(path, **_):
        asked.append(now() - begun)
        raise ClusterUnavailableError("no answer", reason="")

    task = asyncio.create_task(apart._timing(SimpleNamespace(page=page)))
    await asyncio.sleep(181)
    task.cancel()

    assert [round(at) for at in asked] == [60, 120, 180]


@pytest.mark.parametrize("part", [apart.act, apart.watch_cluster])
async def test_no_part_begins_with_a_clock_before_its_build(part, tmp_path, monkeypatch):
    monkeypatch.setattr(reactors, "SystemClock", lambda: SimpleNamespace(now_us=lambda: 0))

    with pytest.raises(WrongClockError):
        await part(settings_in(tmp_path), QUIET)
