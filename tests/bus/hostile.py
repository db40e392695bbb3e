"""A notebook server that does what no server should: one behaviour a name, over a raw connection."""

import asyncio
import gzip
from contextlib import asynccontextmanager, suppress

MIB = 2**20
JSON = b"Content-Type: application/json\r\n"


def whole(body, *headers, status=b"200 OK"):
    """A complete answer."""
    lines = [b"HTTP/1.1 " + status, *headers, b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, b"", body])


def redirect(where):
    return whole(b"", b"Location: " + where, status=b"302 Found")


def chunked(*chunks):
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(chunks)


def says(*pieces, then=None, every_seconds=0.0):
    """A server that reads a request, writes these pieces, and then closes, or does ``then``."""

    async def behave(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every_seconds)
        if then:
            await then(reader, writer)

    return behave


async def silence(reader, writer):
    await asyncio.sleep(60)


def endless(piece, before=b"", every_seconds=0.0):
    """A server that never stops to write."""

    async def behave(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(before)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(every_seconds)

    return behave


async def never_reads(reader, writer):
    reader._transport.pause_reading()
    await silence(reader, writer)


async def closes_at_once(reader, writer):
    return


async def resets(reader, writer):
    writer.transport.abort()


async def speaks_first(reader, writer):
    writer.write(whole(b"[]"))
    await writer.drain()


OK = b"HTTP/1.1 200 OK\r\n"
BIG = b"x" * 65_536

#: What the server does, and what the adapter says of it: a status, or a fault.
BEHAVIOURS = {
    "redirects to a file": (says(redirect(b"file:///etc/passwd")), 302),
    "redirects to the metadata service": (says(redirect(b"http://169.254.169.254/")), 302),
    "redirects to the API server": (says(redirect(b"https://kubernetes.default/api")), 302),
    "redirects to itself": (says(redirect(b"/")), 302),
    "drips a body": (endless(b"x", OK + b"Content-Length: 99999\r\n\r\n", 0.02), "timed_out"),
    "drips headers": (endless(b"a: b\r\n", OK, 0.02), "timed_out"),
    "drips one header": (endless(b"a", OK + b"A: ", 0.02), "timed_out"),
    "never answers": (says(then=silence), "timed_out"),
    "never reads": (never_reads, "timed_out"),
    "stops within the head": (says(OK, then=silence), "timed_out"),
    "stops within the body": (says(whole(b"[]")[:-1], then=silence), "timed_out"),
    "sends 400 MB": (endless(BIG, OK + b"Content-Length: 400000000\r\n\r\n"), "too_large"),
    "sends without a length and without end": (endless(BIG, OK + b"\r\n"), "too_large"),
    "sends chunks without end": (endless(b"10000\r\n" + BIG + b"\r\n", chunked()), "too_large"),
    "sends chunks of one byte": (endless(b"1\r\nx\r\n" * 999, chunked()), "too_large"),
    "sends a chunk extension without end": (endless(b"x" * 999, chunked(b"1;")), "too_large"),
    "sends trailers without end": (endless(b"a: b\r\n" * 99, chunked(b"0\r\n")), "too_large"),
    "sends a gzip bomb": (
        says(whole(gzip.compress(b"0" * 8 * MIB), b"Content-Encoding: gzip")),
        "encoded",
    ),
    "sends brotli": (says(whole(b"x", b"Content-Encoding: br")), "encoded"),
    "sends a compressed transfer": (
        says(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n"),
        "encoded",
    ),
    "sends informational answers without end": (
        endless(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 99),
        "too_large",
    ),
    "speaks HTTP/0.9": (says(b"<html>[]</html>"), "not_http"),
    "speaks TLS on a plain port": (says(b"\x15\x03\x03\x00\x02\x02\x46"), "not_http"),
    "sends a header of 1 MB": (says(OK + b"A: " + b"x" * MIB + b"\r\n\r\n"), "too_large"),
    "sends ten thousand headers": (says(OK + b"a: b\r\n" * 10_000 + b"\r\n"), "too_large"),
    "sends a header with NUL": (says(OK + b"A: \x00\r\n\r\n"), "not_http"),
    "sends two lengths": (says(OK + b"Content-Length: 2\r\n" * 2 + b"\r\n[]"), "not_http"),
    "sends a negative length": (says(OK + b"Content-Length: -1\r\n\r\n[]"), "not_http"),
    "sends less than its length": (says(OK + b"Content-Length: 9\r\n\r\n[]"), "closed_early"),
    "sends more than its length": (says(whole(b"[]") + b"junk"), 200),
    "sends garbage for chunks": (says(chunked(b"zz\r\n[]")), "not_http"),
    "sends a chunk size beyond 64 bits": (says(chunked(b"f" * 17 + b"\r\n[]")), "not_http"),
    "sends no length": (says(OK + JSON + b"\r\n[]"), 200),
    "switches protocols": (
        says(b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"),
        "not_http",
    ),
    "closes at once": (closes_at_once, "closed_early"),
    "resets the connection": (resets, "closed_early"),
    "answers before it is asked": (speaks_first, 200),
    "shows a login page": (says(whole(b"<html>login</html>")), 200),
    "refuses": (says(whole(b"", status=b"403 Forbidden")), 403),
    "answers twice": (says(whole(b"[]") + whole(b"", status=b"500 No")), 200),
}  # fmt: skip


@asynccontextmanager
async def server(behave):
    """A port on loopback where ``behave`` meets every connection; gives the port."""
    tasks, writers = set(), set()

    async def meet(reader, writer):
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await behave(reader, writer)
        writer.close()

    def met(reader, writer):
        if not listening.is_serving():
            # Accepted before the end, and told of after it.
            writer.transport.abort()
            return
        # At once and not in a task: the end of a test may come before a task's first step.
        writers.add(writer)
        tasks.add(asyncio.create_task(meet(reader, writer)))

    listening = await asyncio.start_server(met, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
        # What was accepted is told of, and an aborted transport closes, in the loop's next rounds.
        for _ in range(4):
            await asyncio.sleep(0)
        for one in found:
            if isinstance(one, Exception):
                raise one
