"""Where the ledger is, read without the rest of the settings: what a question needs of them.

The whole model of :mod:`deploy.settings.shape` takes longer to import than a question to a small ledger takes to
answer. What stands
in other parts is checked by the commands that use it. Whatever is unusual here, or wrong, is left to the model: it says
what is wrong, and a place found here is always the one that the model would find.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.settings.addresses import SHORT_FORMS, check_bus_url, default_data, ledger_url
from deploy.settings.environment import environment

#: A cluster's name in the history.
CLUSTER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
#: Fields of the parts that are read here, and the names of the others.
FIELDS = {
    "ledger": frozenset({"url", "heads_file", "signing_key"}),
    "bus": frozenset({"url", "credentials", "monitor_urls", "replicas", "server"}),
    "cluster": frozenset({"name", "kubeconfig", "context", "relist_seconds", "trust_env"}),
}
OTHERS = frozenset({"labels", "admission", "budgets", "culling", "evictions", "jobs", "scheduling"})


@dataclass(frozen=True)
class LedgerPlace:
    """Where the ledger of this process is, and of which cluster it speaks where none is named."""

    data: Path
    ledger_url: str
    cluster: str


def place(options: Mapping[str, Any], config: Path | None = None) -> LedgerPlace:
    """The place, as :func:`deploy.settings.load.load` has it with the same ``options``. Raises SettingsError as that does."""
    found = _usual(options, config)
    if found is None:
        from deploy.settings.load import load

        settings = load(options, config)
        found = LedgerPlace(settings.data, settings.ledger_url, settings.cluster.name)
    return found


def _usual(options: Mapping[str, Any], config: Path | None) -> LedgerPlace | None:
    """The place; None where anything is unusual or wrong."""
    named = config or (Path(text) if (text := environment().get("BURSAR_CONFIG")) else None)
    file: Mapping[str, Any] = {}
    if named is not None:
        from deploy.settings.file import read_settings_file

        file = read_settings_file(named).values
    said_there = _variables()
    if said_there is None or not _is_known(file):
        return None

    def said(part: str, field: str, default: str) -> Any:
        given = (options.get(part) or {}).get(field)
        if given is None:
            given = said_there.get(f"bursar_{part}__{field}")
        return (file.get(part) or {}).get(field, default) if given is None else given

    url, bus, cluster = (
        said("ledger", "url", ""), said("bus", "url", "embedded"), said("cluster", "name", "default"),
    )  # fmt: skip
    data = options.get("data") or said_there.get("bursar_data") or file.get("data")
    if not all(isinstance(value, str) for value in (url, bus, cluster)):
        return None
    if not (isinstance(data, str | Path | None) and CLUSTER_NAME.match(cluster)):
        return None
    try:
        url = ledger_url(url)
        check_bus_url(bus)
    except ValueError:
        return None
    folder = Path(data or default_data()).expanduser().absolute()
    return LedgerPlace(folder, url or f"sqlite:///{folder / 'ledger.db'}", cluster)


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
        if field and part not in OTHERS and field not in FIELDS.get(part, ()):
            return None
        if not field and small not in SHORT_FORMS and part in (*FIELDS, *OTHERS):
            return None
        if small in SHORT_FORMS:
            found.setdefault(SHORT_FORMS[small], value)
        else:
            found[small] = value
    return None if found.get("bursar_data") == "" else found


def _is_known(file: Mapping[str, Any]) -> bool:
    for part, value in file.items():
        if part == "data" or part in OTHERS:
            continue
        if part not in FIELDS or not isinstance(value, dict) or not FIELDS[part] >= set(value):
            return False
    return True
