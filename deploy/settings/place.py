"""The places of the ledger and the bus, read without the rest of the settings: enough for a question.

The whole model of :mod:`deploy.settings.shape` takes longer to import than a question to a small ledger takes to
answer. Commands check the other parts themselves. Unusual or wrong settings are left to the model, and it
reports the error. A place found here is always equal to the model's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.settings.addresses import (
    EMBEDDED,
    SHORT_FORMS,
    bus_address,
    bus_tls,
    check_bus_tls,
    check_bus_url,
    default_data,
    ledger_url,
)
from deploy.settings.environment import environment

if TYPE_CHECKING:
    from bus.jetstream import Credentials, Tls
    from deploy.settings.shape import Settings

#: A cluster's name in the history.
CLUSTER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
#: Fields of the bus with files.
BUS_FILES = ("credentials", "server", "tls_ca", "tls_cert", "tls_key")
#: Fields of the parts read here, and the names of the others, without those of reactors.
FIELDS = {
    "ledger": frozenset({"url", "heads_file", "signing_key", "anchor", "anchor_key"}),
    "bus": frozenset({"url", "monitor_urls", "replicas", *BUS_FILES}),
    "cluster": frozenset({"name", "kubeconfig", "context", "relist_seconds", "trust_env"}),
}
OTHERS = frozenset({"history", "labels", "devices", "admission", "api", "hub", "log", "tracing"})
REACTORS = Path(__file__).parents[2] / "reactors"


@dataclass(frozen=True)
class BusPlace:
    """Where the bus is. See :class:`deploy.settings.shape.BusSettings`."""

    #: May hold a password.
    url: str = field(default=EMBEDDED, repr=False)
    credentials: Path | None = None
    server: Path | None = None
    #: May hold passwords.
    monitors: tuple[str, ...] = field(default=(), repr=False)
    replicas: int = 1
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    @property
    def is_embedded(self) -> bool:
        """Whether Bursar runs the server itself."""
        return self.url == EMBEDDED

    @property
    def address(self) -> tuple[str, Credentials]:
        """URL without its user, and the login."""
        return bus_address(self.url, self.credentials)

    @property
    def tls(self) -> Tls | None:
        """How the connection has to be encrypted; None = as the server asks."""
        return bus_tls(self.url, self.tls_ca, self.tls_cert, self.tls_key)


@dataclass(frozen=True)
class PastLedger:
    """A file with the ledger's rows as they were after the event ``sequence``."""

    path: Path
    sequence: int


@dataclass(frozen=True)
class LedgerPlace:
    """The place of this process's ledger, its default cluster, and the place of the bus."""

    data: Path
    ledger_url: str
    cluster: str
    bus: BusPlace = BusPlace()
    #: The ledger as it was earlier; None = as it is.
    past: PastLedger | None = None
    #: The key of users' names there; None = they are unchanged.
    user_key: Path | None = None

    @property
    def state_file(self) -> Path:
        """See :attr:`deploy.settings.shape.Settings.state_file`."""
        return self.data / "up.json"


def place(options: Mapping[str, Any], config: Path | None = None) -> LedgerPlace:
    """The place, equal to that of :func:`deploy.settings.load.load`
    with the same ``options``. Raises the same SettingsError."""
    found = _usual(options, config)
    if found is None:
        from deploy.settings.load import load

        found = place_of(load(options, config))
    return found


def place_of(settings: Settings) -> LedgerPlace:
    """The same of all settings."""
    bus = settings.bus
    at = BusPlace(
        bus.url.get_secret_value(), bus.credentials, bus.server, bus.monitors, bus.replicas,
        bus.tls_ca, bus.tls_cert, bus.tls_key,
    )  # fmt: skip
    return LedgerPlace(
        settings.data,
        settings.ledger_url,
        settings.cluster.name,
        at,
        user_key=settings.labels.user_key,
    )


def _usual(options: Mapping[str, Any], config: Path | None) -> LedgerPlace | None:
    """The place; None where anything is unusual or wrong."""
    named = config or (Path(text) if (text := environment().get("BURSAR_CONFIG")) else None)
    file: Mapping[str, Any] = {}
    if named is not None:
        from deploy.settings.file import read_settings_file

        file = read_settings_file(named).values
    variables = _variables()
    if variables is None or not _is_known(file):
        return None

    def given_value(part: str, name: str, default: str | None = None) -> Any:
        given = (options.get(part) or {}).get(name)
        if given is None:
            given = variables.get(f"bursar_{part}__{name}")
        return (file.get(part) or {}).get(name, default) if given is None else given

    url, bus, cluster = (
        given_value("ledger", "url", ""), given_value("bus", "url", EMBEDDED), given_value("cluster", "name", "default"),
    )  # fmt: skip
    files = {name: given_value("bus", name) for name in BUS_FILES}
    if any(text is not None and not (isinstance(text, str) and text) for text in files.values()):
        return None
    labels = file.get("labels") or {}
    user_key = variables.get("bursar_labels__user_key")
    if user_key is None and isinstance(labels, dict):
        user_key = labels.get("user_key")
    if not (user_key is None or (isinstance(user_key, str) and user_key)):
        return None
    # Lists and numbers are read by the model.
    if any(given_value("bus", name) is not None for name in ("monitor_urls", "replicas")):
        return None
    # The model has its own words for these.
    if "data" in file and not (isinstance(file["data"], str) and file["data"]):
        return None
    data = options.get("data") or variables.get("bursar_data") or file.get("data")
    if not all(isinstance(value, str) for value in (url, bus, cluster)):
        return None
    if not (isinstance(data, str | Path | None) and CLUSTER_NAME.match(cluster)):
        return None
    try:
        url = ledger_url(url)
        check_bus_url(bus)
        paths: dict[str, Any] = {name: text and Path(text) for name, text in files.items()}
        check_bus_tls(bus, paths["tls_ca"], paths["tls_cert"], paths["tls_key"])
    except ValueError:
        return None
    folder = Path(data or default_data()).expanduser().absolute()
    return LedgerPlace(
        folder, url or f"sqlite:///{folder / 'ledger.db'}", cluster, BusPlace(bus, **paths),
        user_key=Path(user_key) if user_key else None,
    )  # fmt: skip


def _variables() -> dict[str, str] | None:
    """The variables of Bursar, in small letters, short forms spelt out; None where one is unusual."""
    found: dict[str, str] = {}
    # The short forms last: as in the model, a long form is the stronger.
    known = sorted(environment().items(), key=lambda item: item[0].lower() in SHORT_FORMS)
    for name, value in known:
        small = name.lower()
        if not small.startswith("bursar_"):
            continue
        part, _, field = small.removeprefix("bursar_").partition("__")
        if field and not _is_other(part) and field not in FIELDS.get(part, ()):
            return None
        if not field and small not in SHORT_FORMS and (part in FIELDS or _is_other(part)):
            return None
        if small in SHORT_FORMS:
            found.setdefault(SHORT_FORMS[small], value)
        else:
            found[small] = value
    return None if found.get("bursar_data") == "" else found


def _is_known(file: Mapping[str, Any]) -> bool:
    for part, value in file.items():
        if part == "data" or _is_other(part):
            continue
        if part not in FIELDS or not isinstance(value, dict) or not FIELDS[part] >= set(value):
            return False
    return True


def _is_other(part: str) -> bool:
    """Whether a part of the settings is not read here. A reactor's section has the name of its folder."""
    # To import the reactors for their names would take longer than most questions.
    return part in OTHERS or (part.isidentifier() and (REACTORS / part / "reactor.py").is_file())
