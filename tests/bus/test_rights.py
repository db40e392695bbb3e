"""Users of a NATS of one's own: what each may write, and that the server holds them to it."""

import asyncio
import importlib
import pkgutil
import subprocess
from fnmatch import fnmatchcase

import pytest

import bus.events
from bus.embedded import bundled_binary
from bus.errors import PermissionDeniedError
from bus.events.vocabulary import Fact
from bus.jetstream.rights import ROLES, configuration
from tests.bus.kube.observations import said
from tests.bus.roles import PASSWORDS, RoleServer

for module in pkgutil.iter_modules(bus.events.__path__):
    importlib.import_module(f"bus.events.{module.name}")


def kinds(fact):
    """This class of facts and all below it."""
    yield fact
    for below in fact.__subclasses__():
        yield from kinds(below)


TYPES = {fact.wire_type for fact in kinds(Fact) if fact.wire_type}


def writers(type):
    """The users that may write a type of event."""
    return {
        name for name, role in ROLES.items() if any(fnmatchcase(type, one) for one in role.types)
    }


def test_every_type_has_a_writer_but_what_only_repairs_and_imports_say():
    """Those are written by whoever administers the server."""
    assert {type for type in TYPES if not writers(type)} == {
        "history.imported",
        "history.recovered",
    }


def test_nobody_both_observes_and_decides_but_up_and_readers_write_nothing():
    for type in TYPES:
        found = writers(type) - {"up"}
        assert not found & {"ledger", "ask"}
        assert not ("watch" in found and found - {"watch"}), type
    assert writers("decision.cull") == {"act", "up"}
    assert writers("admission.decided") == {"act", "webhook", "up"}


def test_the_configuration_is_one_that_the_server_takes(tmp_path):
    path = tmp_path / "nats.conf"
    path.write_text(configuration())
    passwords = {f"BURSAR_{name.upper()}_PASSWORD": text for name, text in PASSWORDS.items()}
    found = subprocess.run(
        [bundled_binary(), "-t", "-c", path], env=passwords, capture_output=True, text=True
    )

    # The files of its certificates are not here; all before is read.
    assert "tls.crt" in found.stderr, found.stderr


@pytest.mark.nats
async def test_a_reader_cannot_publish_a_decision(tmp_path):
    decision, observed = said(1, type="decision.cull"), said(2)
    async with RoleServer(tmp_path) as server:
        doors = {name: await server.connected(name, ack_seconds=1, attempts=1) for name in ROLES}
        try:
            assert await doors["act"].publish([decision]) == [1]
            assert await doors["watch"].publish([observed]) == [2]
            forbidden = [
                *((name, decision) for name in ("ask", "ledger", "watch", "webhook", "orders")),
                *((name, observed) for name in ("ask", "act", "webhook")),
            ]
            await asyncio.gather(
                *(refused(doors[name].publish([event])) for name, event in forbidden)
            )
            changes = [
                door._connection.ask(f"STREAM.{request}.HISTORY", b"{}")
                for door in doors.values()
                for request in ("PURGE", "DELETE", "UPDATE")
            ]
            await asyncio.gather(*map(refused, changes))
            for name, door in doors.items():
                read = [e.sequence async for part in door.read(after=0, live=False) for e in part]
                assert read == [1, 2], name
            assert (await doors["ask"].head()).last_sequence == 2
        finally:
            for door in doors.values():
                await door.close()


async def refused(asked):
    with pytest.raises(PermissionDeniedError):
        await asked


@pytest.mark.nats
async def test_the_printed_configuration_proves_its_durability_without_a_monitoring_port(tmp_path):
    assert "http:" not in configuration()
    async with RoleServer(tmp_path) as server:
        transport = await server.connected("up")
        lines = {line.property: line.state for line in await transport.guard(server.monitor_url)}
        wrong = await transport.guard(server.monitor_url.replace("password-of", "wrong"))
        await transport.close()

    assert lines["sync_interval"] == "OK"
    assert {line.property: line.state for line in wrong}["sync_interval"] == "UNKNOWN"
