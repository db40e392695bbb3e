"""A hub on real NATS servers: each cluster's history is mirrored over a leaf node, and written to a ledger with the same rows and
chain as the cluster's own; while a link is down nothing is lost, the others go on, and it shows as unknown."""

import asyncio
import contextlib
import json
import shlex
import socket
import sqlite3
import subprocess

import msgspec
import pytest
import sqlalchemy as sa

from bus.embedded import bundled_binary
from bus.errors import UnsafeBusError
from bus.jetstream import JetStream, require_safe
from bus.streams import Stream, history, mirror
from deploy.cli.program.exits import Exit
from deploy.runtime import clusters
from deploy.runtime.hub import follow_clusters
from deploy.settings.load import load
from projections.catalogue import MODEL
from projections.engine.folder import Folder
from projections.engine.runner import Runner
from projections.engine.store import Store, engine
from tests import factories as f
from tests.benchmarks.ledgers import rows_of
from tests.deploy.ledgers import a_hub, bursar, make_ledger
from tests.projections.engine.archives import ledger

pytestmark = pytest.mark.nats

LEAF = """leafnodes {{ remotes: [
  {{ url: "nats://127.0.0.1:{port}", deny_imports: ["bursar.>"], deny_exports: ["bursar.>"] }}
] }}"""


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@contextlib.asynccontextmanager
async def server(folder, name, leaves):
    """A nats-server of a JetStream domain of its own; its URL."""
    port = free_port()
    config = folder / f"{name}.conf"
    config.write_text(
        f'server_name: {name}\nlisten: "127.0.0.1:{port}"\n'
        f'jetstream {{ store_dir: "{folder}/{name}", domain: {name}, sync_interval: always }}\n{leaves}\n'
    )
    process = subprocess.Popen([str(bundled_binary()), "-c", str(config), "-l", str(folder / f"{name}.log")])  # fmt: skip
    try:
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)


class Link:
    """A wire between a cluster and the hub, which can be cut."""

    def __init__(self, port):
        self.port, self._target, self._pairs, self._server = free_port(), port, [], None

    async def up(self):
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)

    async def down(self):
        self._server.close()
        for writer in self._pairs:
            writer.close()
        self._pairs.clear()

    async def _carry(self, reader, writer):
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._pairs += [writer, back]
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(self._pipe(reader, back), self._pipe(there, writer))

    async def _pipe(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()


class Screen:
    def tell(self, text):
        """Shown nowhere."""

    def show(self, progress):
        pass


def life(cluster, first, count, at):
    """The same names and ids in every cluster, as two that were made from one template have."""
    for number in range(first, first + count):
        cpu = "2" if cluster == "a" else "3"
        yield f.pod_observed(f"pod-{number}", number + 1, at + number, cpu=cpu)


async def said(url, cluster, first, count, at=0):
    door = await JetStream.connect(url, history())
    events = [msgspec.structs.replace(e, cluster=cluster, sequence=0) for e in life(cluster, first, count, at)]  # fmt: skip
    last = (await door.publish(events))[-1]
    await door.close()
    return last


async def own_ledger(url, folder):
    """What the cluster's own Bursar has: its rows, and the chain of its events."""
    folder.mkdir(parents=True)
    door, store = (
        await JetStream.connect(url, history()),
        ledger(f"sqlite:///{folder / 'ledger.db'}"),
    )
    runner = Runner(store, Folder(MODEL, store), door)
    task = asyncio.create_task(runner.run())
    last = (await door.head()).last_sequence
    await until(lambda: runner.checkpoint.sequence >= last)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await door.close()
    found = rows_of(store), store.checkpoint("").digest
    store.close()
    return found


async def until(holds, seconds=60):
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.1)


def hubs(data, cluster):
    """The rows, the chain and the last event of the hub's ledger of a cluster."""
    path = data / "clusters" / cluster / "ledger.db"
    if not path.exists():
        return None, None, 0
    store = Store(engine(f"sqlite:///{path}", read_only=True))
    if not sa.inspect(store.engine).has_table("checkpoints"):
        store.close()
        return None, None, 0
    checkpoint = store.checkpoint("")
    found = rows_of(store), checkpoint.digest, checkpoint.sequence
    store.close()
    return found


def asked(capsys, *words):
    code = bursar(*words, "-o", "json")
    out, err = capsys.readouterr()
    return code, json.loads(out), err


@contextlib.asynccontextmanager
async def site(tmp_path):
    """A hub, two clusters, the wire of the first, and their URLs."""
    leaf = free_port()
    link = Link(leaf)
    await link.up()
    async with (
        server(
            tmp_path, "hub", f'leafnodes {{ listen: "127.0.0.1:{leaf}", no_advertise: true }}'
        ) as hub,
        server(tmp_path, "a", LEAF.format(port=link.port)) as a,
        server(tmp_path, "b", LEAF.format(port=leaf)) as b,
    ):
        yield hub, {"a": a, "b": b}, link
        await link.down()


async def test_an_hour_without_its_link_loses_nothing_of_a_cluster_and_shows(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(clusters, "QUIET_SECONDS", 4)
    data = tmp_path / "data"
    async with site(tmp_path) as (hub, urls, link):
        for name, url in urls.items():
            await said(url, name, 0, 50)
        settings = load({"data": data, "bus": {"url": hub}, "hub": {"clusters": {"a": "a", "b": "b"}}})  # fmt: skip
        following = asyncio.create_task(follow_clusters(settings, Screen()))
        await until(lambda: hubs(data, "a")[2] == hubs(data, "b")[2] == 50)
        await until(lambda: asked(capsys, "clusters", "--data", data)[0] == 0)
        await link.down()
        # An hour goes by, in what the clusters say.
        await said(urls["a"], "a", 50, 40, at=3_600)
        await said(urls["b"], "b", 50, 30, at=3_600)
        await until(lambda: hubs(data, "b")[2] == 80)
        await until(lambda: asked(capsys, "clusters", "--data", data)[0] == 7)
        code, during, _ = asked(capsys, "clusters", "--data", data)
        _, rows, notes = asked(capsys, "report", "--by", "cluster", "--data", data)
        assert (code, [(one["link"], one["sequence"]) for one in during]) == (7, [("down", 50), ("up", 80)])  # fmt: skip
        assert [row["cluster"] for row in sorted(rows, key=str)] == ["a", "b"]
        assert "nothing of cluster a was observed after" in notes and "cluster b was" not in notes
        await link.up()
        await until(lambda: hubs(data, "a")[2] == 90)
        for name, url in urls.items():
            own = await own_ledger(url, tmp_path / f"own-{name}")
            assert hubs(data, name)[:2] == own, name
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    _, rows, _ = asked(capsys, "report", "--by", "team", "--data", data)
    _, of_a, _ = asked(capsys, "report", "--by", "team", "--data", data / "clusters" / "a")
    _, of_b, _ = asked(capsys, "report", "--by", "team", "--data", data / "clusters" / "b")
    assert [row["pods"] for row in rows] == [of_a[0]["pods"] + of_b[0]["pods"]] == [170]


async def test_what_ends_one_cluster_s_ledger_is_its_trouble_and_the_others_go_on(tmp_path, capsys):
    data = tmp_path / "data"
    async with site(tmp_path) as (hub, urls, _):
        for name, url in urls.items():
            await said(url, name, 0, 20)
        settings = load({"data": data, "bus": {"url": hub}, "hub": {"clusters": {"a": "a", "b": "b"}}})  # fmt: skip
        following = asyncio.create_task(follow_clusters(settings, Screen()))
        await until(lambda: hubs(data, "a")[2] == hubs(data, "b")[2] == 20)
        with contextlib.closing(sqlite3.connect(data / "clusters" / "a" / "ledger.db")) as broken:
            broken.execute("CREATE TRIGGER t BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'broken'); END")  # fmt: skip
        for name, url in urls.items():
            await said(url, name, 20, 10)
        state = data / "hub.json"
        await until(lambda: following.done() or json.loads(state.read_text())["a"]["trouble"])
        await until(lambda: following.done() or hubs(data, "b")[2] == 30)
        assert not following.done()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    code, (a, b), _ = asked(capsys, "clusters", "--data", data)

    assert (code, a["link"], b["link"], b["sequence"], b["trouble"]) == (7, "down", "up", 30, "")


def test_a_hub_that_ended_is_no_link_that_is_up(tmp_path, capsys):
    a_hub(tmp_path, {f.CLUSTER: 60}, written_s=3 * 86_400)

    code, [row], _ = asked(capsys, "clusters", "--data", tmp_path)
    assert (code, row["link"], row["quiet_s"] // 86_400) == (7, "down", 3)
    assert "is it running" in row["trouble"]


def test_a_ledger_outside_a_hub_has_no_clusters_and_the_way_out_is_named(tmp_path, capsys):
    assert bursar("clusters", "--data", tmp_path) == Exit.ABSENT
    make_ledger(tmp_path)

    assert bursar("clusters", "--data", tmp_path) == Exit.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "this ledger is not a hub's: give the hub's folder with --data" in err


def test_clusters_of_one_name_are_charged_as_their_own_ledgers_charge_them_and_named(
    tmp_path, capsys
):
    a_hub(tmp_path, {"a": 60, "b": 7_200})

    _, rows, notes = asked(capsys, "report", "--by", "cluster", "--data", tmp_path)
    own = [
        asked(capsys, "report", "--by", "cluster", "--data", tmp_path / "clusters" / name)[1]
        for name in ("a", "b")
    ]
    code, found, _ = asked(capsys, "clusters", "--data", tmp_path)
    assert rows[0]["held_s"] == sum(row["held_s"] for [row] in own)
    assert "was observed after" in notes
    assert code == 7 and all(f"of cluster {f.CLUSTER}" in row["trouble"] for row in found)


QUESTIONS = (
    "status", "report --by cluster,namespace", "acct", "diff --from 1 --to 2", "devices", "events", "evictions", "why p",
    "sql 'SELECT cluster, quota FROM v1_budget'", "notebooks", "quota tree", "get quotas", "queue show", "budget list",
    "jobs list", "jobs hours", "report --by namespace --at 1", "agreement", "parked list", "history segments", "verify",
)  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_cluster_s_ledger_is_asked_by_its_name(question, tmp_path, capsys):
    a_hub(tmp_path, {"a": 60, "b": 7_200}, are_named=True)
    folder = tmp_path / "clusters" / "b"

    own = bursar(*shlex.split(question), "--data", folder, "-o", "json"), capsys.readouterr().out
    code = bursar(*shlex.split(question), "--data", tmp_path, "--cluster", "b", "-o", "json")
    assert (code, capsys.readouterr().out) == own and own[0] != 2


def test_a_cluster_that_a_hub_does_not_have_is_named_with_those_that_it_has(tmp_path, capsys):
    a_hub(tmp_path, {"a": 60, "b": 7_200}, are_named=True)

    assert bursar("status", "--data", tmp_path, "--cluster", "prod") == 2
    assert "'prod': this hub has no ledger of it, but of a, b" in capsys.readouterr().err


def test_nothing_is_said_to_a_cluster_at_a_hub(tmp_path, capsys):
    """A hub's ledger is a mirror's: a bus that was begun beside it would have a history of its own."""
    a_hub(tmp_path, {"a": 60, "b": 7_200}, are_named=True)

    for words in (
        "queue move ns/x --priority 1",
        "queue hold ns/x",
        "budget credit q limits.cpu 5 --reason more",
        "cull undo x",
    ):
        bursar(*words.split(), "--data", tmp_path, "--cluster", "b")
        assert "use the cluster's own Bursar" in capsys.readouterr().err, words


def test_of_a_ledger_with_several_clusters_one_is_reported_or_the_option_is_refused(
    tmp_path, capsys
):
    facts = [f.pod_observed(name, 1, 0, cpu="2") for name in ("p", "q", "last")]
    facts = [
        msgspec.structs.replace(one, cluster=name) for one, name in zip(facts, "abb", strict=True)
    ]
    make_ledger(tmp_path, facts)

    for question in ("report --by cluster", "acct"):
        _, rows, _ = asked(capsys, *question.split(), "--cluster", "b", "--data", tmp_path)
        assert {row["cluster"] for row in rows} == {"b"}
    assert bursar("status", "--data", tmp_path, "--cluster", "b") == 2
    assert "this ledger is no hub's" in capsys.readouterr().err


async def test_a_mirror_of_something_else_is_refused(tmp_path):
    async with site(tmp_path) as (hub, urls, _):
        await said(urls["a"], "a", 0, 1)
        door = await JetStream.connect(hub, mirror("a", "a"))
        plain = await JetStream.connect(hub, Stream("HISTORY_a", ()))
        with pytest.raises(UnsafeBusError, match="mirror"):
            require_safe(await plain.guard())
        require_safe(await door.guard())
        other = await JetStream.connect(hub, mirror("a", "b"))
        with pytest.raises(UnsafeBusError, match="mirror"):
            require_safe(await other.guard())
        for one in (door, plain, other):
            await one.close()
