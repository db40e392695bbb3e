"""The DELETE requests of one pass of jupyterhub-idle-culler over the hub's users.

A hub's ``state`` filter may leave users out. This changes nothing here: a user left out has no server to
stop, and cannot be deleted either.

Source: docs/culling.md (jupyterhub-idle-culler 2.0.0 at 8e625a4).
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from bus.clock import SECOND_US, parse_stamp
from bus.errors import TimestampError


class HubOptions(msgspec.Struct, frozen=True):
    """The culler's command line options, under its own names and with its defaults. Seconds."""

    timeout: int = 600
    #: Servers and users older than this go although they are active, whatever the switches below say. 0 = off.
    max_age: int = 0
    cull_users: bool = False
    cull_admin_users: bool = True
    cull_default_servers: bool = True
    cull_named_servers: bool = True
    #: A named server is deleted, not only stopped.
    remove_named_servers: bool = False


class HubServer(msgspec.Struct, frozen=True):
    """A server as the hub's API shows it. ``ready`` is absent before JupyterHub 0.9: then a URL means ready."""

    name: str = ""
    last_activity: str | None = None
    started: str | None = None
    ready: bool | None = None
    pending: str | None = None
    url: str | None = None


class HubUser(msgspec.Struct, frozen=True):
    """A user as the hub's API shows it. ``servers`` None (before 0.9) = ``server`` is the URL of the only one."""

    name: str
    admin: bool = False
    last_activity: str | None = None
    created: str | None = None
    servers: dict[str, HubServer] | None = None
    server: str | None = None
    pending: str | None = None


class HubRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A DELETE of a path below the hub's API."""

    delete: str
    body: dict[str, bool] | None = None


def hub_requests(
    users: Sequence[HubUser], *, options: HubOptions, stop_status: int, now_us: int
) -> list[HubRequest]:
    """The requests of one pass. ``stop_status``: the hub's answer to the stop of a server.

    Only 2xx other than 202 (slow to stop) counts as stopped, and only users without a running server are deleted.
    """
    requests: list[HubRequest] = []
    is_stopped = stop_status // 100 == 2 and stop_status != 202
    for user in users:
        servers = _servers(user)
        stops = {
            name: _stop(user, name, server, options)
            for name, server in servers.items()
            if _is_up(server) and _goes(server, not name, options, now_us)
        }
        requests += stops.values()
        all_down = len(stops) == len(servers) and (is_stopped or not stops)
        if options.cull_users and all_down and _user_goes(user, options, now_us):
            requests.append(HubRequest(f"/users/{quote(user.name)}"))
    return requests


def _servers(user: HubUser) -> dict[str, HubServer]:
    if user.servers is not None:
        return user.servers
    if not user.server:
        return {}
    only = HubServer(last_activity=user.last_activity, pending=user.pending, url=user.server)
    return {"": only}


def _is_up(server: HubServer) -> bool:
    return not server.pending and (bool(server.url) if server.ready is None else server.ready)


def _goes(server: HubServer, is_default: bool, options: HubOptions, now_us: int) -> bool:
    switched_on = options.cull_default_servers if is_default else options.cull_named_servers
    idle_us = _since(server.last_activity or server.started, now_us)
    return (switched_on and _reaches(idle_us, options.timeout)) or _is_too_old(
        server.started, options, now_us
    )


def _user_goes(user: HubUser, options: HubOptions, now_us: int) -> bool:
    idle_us = _since(user.last_activity or user.created, now_us)
    may = options.cull_admin_users or not user.admin
    return (may and _reaches(idle_us, options.timeout)) or _is_too_old(
        user.created, options, now_us
    )


def _is_too_old(since: str | None, options: HubOptions, now_us: int) -> bool:
    return bool(options.max_age) and _reaches(_since(since, now_us), options.max_age)


def _since(text: str | None, now_us: int) -> int | None:
    """Microseconds since a stamp, negative for one ahead; a stamp without a zone is UTC. None = no stamp."""
    if not text:
        return None
    try:
        return now_us - parse_stamp(text)
    except TimestampError:
        return now_us - parse_stamp(f"{text}Z")


def _reaches(span_us: int | None, limit_seconds: int) -> bool:
    return span_us is not None and span_us >= limit_seconds * SECOND_US


def _stop(user: HubUser, name: str, server: HubServer, options: HubOptions) -> HubRequest:
    if not name:
        return HubRequest(f"/users/{quote(user.name)}/server")
    body = {"remove": True} if options.remove_named_servers else None
    return HubRequest(f"/users/{quote(user.name)}/servers/{quote(server.name)}", body)
