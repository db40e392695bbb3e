"""A receiver of warnings: an HTTP server that keeps what it was sent."""

import json
from contextlib import asynccontextmanager

from bus.notify import Receiver
from tests.bus.hostile import server

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


@asynccontextmanager
async def receiving(*answers):
    """A server that gives these answers, one a connection, the last again and again. An answer is bytes, or what to do."""
    got = []

    async def serve(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line[15:]) for line in head.lower().split("\r\n") if "content-length" in line
        )
        got.append((head, json.loads(await reader.readexactly(length))))
        answer = answers[min(len(got), len(answers)) - 1]
        try:
            if callable(answer):
                await answer(writer)
            else:
                writer.write(answer)
                await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.close()

    async with server(serve) as port:
        yield port, got


def receiver(port, **fields):
    hasty = {"deadline_seconds": 0.5, "wait_seconds": 0.01, "total_seconds": 3.0}
    return Receiver(**{"url": f"http://127.0.0.1:{port}/hook?key=s3cret", **hasty, **fields})
