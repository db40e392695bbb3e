"""What Bursar uses of nats-py beyond its public names is as the pinned release has it; a new release is read before it is taken."""

import inspect
import tomllib
from importlib import metadata

from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.protocol.parser import Parser

from bus.jetstream.nats_internals import RawClient, number
from tests.architecture.product import ROOT

READ = "2.16"


def parameters(function):
    return list(inspect.signature(function).parameters)


def test_the_pinned_release_is_the_one_that_was_read():
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    (pinned,) = (one["version"] for one in lock["package"] if one["name"] == "nats-py")

    assert metadata.version("nats-py") == pinned
    assert pinned.startswith(f"{READ}.")


def test_the_steps_that_are_taken_or_replaced_are_there():
    assert parameters(Client._process_msg) == ["self", "sid", "subject", "reply", "data", "headers"]
    assert parameters(Client._send_command)[:2] == ["self", "cmd"]
    assert parameters(Client._flush_pending)[0] == "self"
    assert parameters(Client._process_info) == ["self", "info", "initial_connection"]
    assert parameters(Client._process_connect_init) == ["self"]
    assert isinstance(Client.ssl_context, property)
    assert parameters(Parser.parse) == ["self", "data"]
    assert all(
        map(
            inspect.iscoroutinefunction,
            (Client._process_msg, Client._send_command, Client._flush_pending, Parser.parse),
        )
    )


async def test_what_a_client_keeps_is_where_it_is_looked_for():
    ours, theirs = RawClient(), Client()

    assert type(theirs._ps) is Parser
    assert isinstance(ours._ps, Parser)
    assert bytes(theirs._ps.buf) == b""
    assert ours.greeting == theirs._server_info == {}
    assert number(Subscription(theirs, 7)) == 7
