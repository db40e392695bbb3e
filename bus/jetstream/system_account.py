"""ADAPTER: questions to a nats-server itself, by a user of its system account.

They replace the monitoring port. That port asks for no log-in and also serves `/debug/vars`.

Source: nats-server 2.15, system services (`$SYS.REQ.SERVER.<id>.VARZ` and `HEALTHZ`).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from bus.errors import BusTlsError, BusUnavailableError, PermissionDeniedError
from bus.jetstream.connection import Connection
from bus.jetstream.tls import Tls

#: Schemes of addresses for these questions.
SCHEMES = ("nats", "tls")
#: The questions allowed to a system account user.
ALLOWED = ("$SYS.REQ.SERVER.*.VARZ", "$SYS.REQ.SERVER.*.HEALTHZ")
_SECONDS = 3.0


class _Reply(msgspec.Struct):
    data: dict[str, Any] | None = None


_reply = msgspec.json.Decoder(_Reply)


async def server_state(
    url: str, question: str, body: bytes = b"", tls: Tls | None = None
) -> dict[str, Any] | None:
    """The answer of the server at `nats://user:password@host:port` about itself; None when it cannot be had."""
    parts = urlsplit(url)
    credentials = (unquote(parts.username or ""), unquote(parts.password or ""))
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    try:
        connection = await Connection.open(
            address,
            credentials=credentials,
            tls=tls,
            connect_seconds=_SECONDS,
            api_seconds=_SECONDS,
        )
    except (BusUnavailableError, BusTlsError, PermissionDeniedError):
        return None
    try:
        # By its id: of a cluster each server would answer.
        server = connection.server_info["server_id"]
        answer = await connection.request(f"$SYS.REQ.SERVER.{server}.{question}", body)
        return _reply.decode(answer.data).data
    except (
        BusUnavailableError,
        PermissionDeniedError,
        msgspec.DecodeError,
        UnicodeDecodeError,
        KeyError,
    ):
        return None
    finally:
        await connection.close()
