"""The recorded journals of a cluster's quotas under other limits: reads the ledger, changes nothing."""

from __future__ import annotations

from pathlib import Path

from bus.errors import QuantityError
from bus.events.admissions import JOURNAL, QuotaDeclared
from bus.kube.crds.keys import CASH, is_key, key_amount
from deploy.errors import SettingsError
from deploy.settings.file import read_settings_file
from projections.quota_trees.queries import Select, archived, facts
from reactors.lab.quotas import Entry, Limits, QuotaOutcome, outcomes, played

SECTION = "quotas"


def proposed_limits(path: Path) -> Limits:
    """The limits in a file: under ``quotas`` each quota's keys and amounts. Raises SettingsError naming file and line."""
    file = read_settings_file(path)
    said = file.values.get(SECTION)
    if not isinstance(said, dict) or not said:
        raise SettingsError(f"{path}: it has no section {SECTION}, whose limits are tried")
    found: dict[str, dict[str, int]] = {}
    for quota, hard in said.items():
        if not isinstance(hard, dict) or not hard:
            line = file.line((SECTION, quota))
            raise SettingsError(f"{path}, line {line}: {SECTION}.{quota}: no keys with amounts")
        for key, amount in hard.items():
            line = file.line((SECTION, quota, key))
            if not is_key(key) or key.startswith(CASH):
                raise SettingsError(
                    f"{path}, line {line}: {key[:64]!r} is no limit: limits.cpu, requests.memory"
                )
            if isinstance(amount, bool) or not isinstance(amount, str | int):
                raise SettingsError(f"{path}, line {line}: {key}: no amount")
            try:
                found.setdefault(quota, {})[key] = key_amount(key, amount)[0]
            except QuantityError as error:
                raise SettingsError(f"{path}, line {line}: {key}: {error}") from None
    return found


def tried_limits(
    select: Select, cluster: str, limits: Limits, first: int, last: int
) -> list[QuotaOutcome]:
    """Limits on the answers after the event ``first`` up to ``last``. Raises SettingsError for a quota that is not there."""
    journals: dict[str, list[Entry]] = {}
    types = [fact.wire_type for fact in JOURNAL]
    for event, fact in facts(archived(select, cluster, types, until=last)):
        if isinstance(fact, JOURNAL):
            journals.setdefault(event.key, []).append(Entry(event, fact))
    known = {
        one.fact.quota
        for entries in journals.values()
        for one in entries
        if isinstance(one.fact, QuotaDeclared)
    }
    for name in limits:
        if name not in known:
            raise SettingsError(f"there was no quota {name[:64]!r}: bursar quota tree shows all")
    return outcomes(played(journals, limits, first))
