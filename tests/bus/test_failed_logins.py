"""A bus that hangs up in the middle of a log-in, as one does that is killed or starts, is let go of."""

import asyncio
import json

from bus.jetstream.connection import Connection
from tests.bus.hostile import server

INFO = b"INFO " + json.dumps({"server_id": "s", "version": "2.12.0", "max_payload": 1}).encode()


class Bus:
    """Hangs up on the first connection when it is told, on the next ``failing`` in their log-in, and then no more."""

    def __init__(self, failing):
        self.failing = failing
        self.met = 0
        #: How many of those it hung up on did the same.
        self.let_go = 0
        self.hang_up = asyncio.Event()
        #: The connection after those was logged in.
        self.settled = asyncio.Event()

    async def __call__(self, reader, writer):
        self.met += 1
        if 1 < self.met <= 1 + self.failing:
            writer.write_eof()
            await reader.read()
            self.let_go += 1
            return
        writer.write(INFO + b"\r\n")
        await reader.readuntil(b"PING\r\n")
        writer.write(b"PONG\r\n")
        if self.met == 1:
            await self.hang_up.wait()
            return
        self.settled.set()
        while await reader.readuntil(b"PING\r\n"):
            writer.write(b"PONG\r\n")


async def test_a_connection_whose_login_failed_is_closed_before_the_next_is_tried():
    bus = Bus(failing=3)
    async with server(bus) as port:
        connection = await Connection.open(f"nats://127.0.0.1:{port}")
        bus.hang_up.set()
        async with asyncio.timeout(10):
            await bus.settled.wait()
        await connection.close()

        assert (bus.met, bus.let_go) == (5, 3)
