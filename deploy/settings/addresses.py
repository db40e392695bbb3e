"""Addresses of the ledger, the bus and the data folder: checked, completed, and shown without their secrets."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from deploy.errors import SettingsError
from deploy.settings.environment import environment

if TYPE_CHECKING:
    from bus.jetstream import Credentials, Tls

#: The bus that comes with Bursar: a nats-server below the data folder.
EMBEDDED = "embedded"

#: Short names of the environment, and the field each stands for.
SHORT_FORMS = {
    "bursar_ledger": "bursar_ledger__url",
    "bursar_bus": "bursar_bus__url",
    "bursar_nats_server": "bursar_bus__server",
}

_SECRET_PARAMETER = re.compile(r"(?i)([?&;#][^=&;#]*(?:pass|secret|token|key)[^=&;#]*=)[^&;#]*")


def default_data() -> Path:
    """``$XDG_DATA_HOME/bursar``, by default ``~/.local/share/bursar``.

    One place a user, not one a working folder: ``bursar report`` has to find the data of ``bursar up`` from any working
    folder. Raises SettingsError without a home.
    """
    base = environment().get("XDG_DATA_HOME", "")
    try:
        # A relative path here is to be ignored (XDG base directory specification).
        root = Path(base) if base.startswith("/") else Path.home() / ".local" / "share"
    except RuntimeError:
        raise SettingsError("there is no home folder: name the data folder with --data") from None
    return root / "bursar"


def masked(url: str) -> str:
    """A URL to show: secrets as ``***`` in all places of a URL, even in a malformed one.

    Secrets are all between a user and the last ``@``, a NATS token (a user without a password), and each parameter with a
    name like password, secret, token or key.
    """
    scheme, _, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    if at and scheme != "sqlite":
        user, colon, _ = login.partition(":")
        is_token = not colon and scheme in ("nats", "tls")
        url = f"{scheme}://{'***' if is_token else user + ':***' * bool(colon)}@{host}"
    return _SECRET_PARAMETER.sub(r"\1***", url)


def ledger_url(url: str) -> str:
    """A database URL with its driver; "" for "". Raises ValueError."""
    import sqlalchemy as sa

    if not url:
        return url
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise ValueError(
            "not a database URL: sqlite:///FILE or postgresql://HOST/DATABASE"
        ) from None
    backend = parsed.drivername.partition("+")[0]
    if backend in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    elif backend != "sqlite" or not parsed.database or parsed.database == ":memory:":
        raise ValueError(
            "the ledger is a file of SQLite or a PostgreSQL: sqlite:///FILE or postgresql://…"
        )
    if parsed.port is not None and not 0 < parsed.port < 65_536:
        raise ValueError("the port is not between 1 and 65535")
    return parsed.render_as_string(hide_password=False)


def unverified(url: str) -> str:
    """The first host of a remote PostgreSQL without protection against impostors; "" if there is none.

    Only ``sslmode=verify-full`` checks the certificate and its name; libpq's default accepts any server, unencrypted too.
    """
    import sqlalchemy as sa

    parsed = sa.make_url(url)
    given = environment()
    if parsed.get_backend_name() != "postgresql":
        return ""
    if (parsed.query.get("sslmode") or given.get("PGSSLMODE")) == "verify-full":
        return ""
    named = parsed.query.get("host") or parsed.host or given.get("PGHOST", "")
    hosts = named.split(",") if isinstance(named, str) else named
    return next((host for host in hosts if not _is_here(host)), "")


def _is_here(host: str) -> bool:
    """Whether a host of libpq, with or without a port, is this machine: none or a path is a Unix socket."""
    from ipaddress import ip_address

    for name in (host, host.rpartition(":")[0] or host):
        if not name or name.startswith(("/", "@")) or name == "localhost":
            return True
        with suppress(ValueError):
            return ip_address(name.strip("[]")).is_loopback
    return False


def check_bus_url(url: str) -> None:
    """Raises ValueError for an invalid address of a bus."""
    if url == EMBEDDED:
        return
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("the bus URL has no valid port (1 to 65535)") from None
    if parts.scheme not in ("nats", "tls") or not parts.hostname:
        raise ValueError("the bus is `embedded` or nats://HOST:PORT")
    if port == 0:
        raise ValueError("the bus URL has no valid port (1 to 65535)")


def bus_address(url: str, credentials: Path | None) -> tuple[str, Credentials]:
    """The URL of a bus without its user, and the login: that user, else ``credentials``."""
    parts = urlsplit(url)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if parts.username:
        return bare, (parts.username, parts.password or "")
    return bare, credentials


def check_bus_tls(url: str, ca: Path | None, cert: Path | None, key: Path | None) -> None:
    """Raises ValueError for files without a use."""
    if url == EMBEDDED and (ca or cert or key):
        raise ValueError("tls_ca, tls_cert and tls_key go with a url: the embedded bus is on loopback alone")  # fmt: skip
    if key and not cert:
        raise ValueError("tls_key goes with tls_cert, the certificate that it belongs to")


def bus_tls(url: str, ca: Path | None, cert: Path | None, key: Path | None) -> Tls | None:
    """How the connection has to be encrypted: where the URL is ``tls://``, or any file is named. None = as the server asks."""
    if not (url.startswith("tls://") or ca or cert):
        return None
    from bus.jetstream import Tls

    return Tls(ca, cert, key)
