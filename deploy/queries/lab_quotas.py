"""The recorded journals of a cluster's quotas under others: reads the ledger, changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bus.clock import SystemClock
from bus.errors import LedgerError, QuantityError
from bus.events.admissions import JOURNAL, QuotaDeclared
from bus.kube.crds.keys import CASH, is_key, is_resource, key_amount, resource_amount
from bus.memory import MemoryTransport
from deploy.errors import SettingsError
from deploy.queries.lab import missing
from deploy.settings.file import SettingsFile, read_settings_file
from projections.engine.segments.reading import event_at
from projections.quota_trees.queries import Select, archived, facts
from reactors.lab.comparison import Comparison
from reactors.lab.quotas import Changed, Limits, Proposed, QuotaGroup, outcomes, played
from reactors.lab.quotas.arrivals import READS, RecordedJournals
from reactors.readers import Readers

SECTION = "quotas"

#: Fields of a quota's object that a trial may change beside amounts by key.
_SHARES = {"min": "min", "max": "max", "sharedWeight": "weight"}
_QUEUE = {"hold": ("hold", bool), "order": ("order", str), "maxHeadDelaySeconds": ("max_head_delay_seconds", int)}  # fmt: skip
_CHOICES = {"order": ("Strict", "BackFill"), "exhaustion": ("Warn", "DenyNew", "GraceThenEvict")}


def proposed_limits(path: Path) -> Limits:
    """The tried limits of each quota in a file, under ``quotas``. Raises SettingsError naming file and line."""
    return _Reading(read_settings_file(path), path).limits()


class _Reading:
    def __init__(self, file: SettingsFile, path: Path) -> None:
        self._file, self._path = file, path

    def limits(self) -> Limits:
        section = self._file.values.get(SECTION)
        if not isinstance(section, dict) or not section:
            raise missing(self._path, SECTION)
        found = {}
        for quota, tried in section.items():
            if not isinstance(tried, dict) or not tried:
                raise self._wrong((quota,), "no keys with amounts")
            found[quota] = self._quota(quota, tried)
        return found

    def _quota(self, quota: str, tried: dict[str, Any]) -> Proposed:
        hard, cash, shares = {}, {}, {}
        queue: dict[str, Any] = {}
        fields: dict[str, Any] = {}
        parent = None
        for key, value in tried.items():
            where = (quota, key)
            if key == "parent":
                parent = self._checked(where, value, str)
            elif key == "exhaustion":
                fields[key] = self._checked(where, value, str)
            elif key == "lends":
                fields[key] = self._checked(where, value, bool)
            elif key == "queue":
                queue = self._queue(where, value)
            elif key in _SHARES:
                shares[_SHARES[key]] = self._shares(where, value)
            elif is_key(key) and key.startswith(CASH):
                cash[key.removeprefix(CASH)] = self._amount(where, key_amount, value)
            elif is_key(key):
                hard[key] = self._amount(where, key_amount, value)
            else:
                others = ", ".join(("parent", "queue", "exhaustion", "lends", *_SHARES))
                raise self._wrong(
                    where, f"{key[:64]!r} is no limit (limits.cpu, cash/limits.cpu), nor {others}"
                )
        return Proposed(hard, cash, **shares, queue=queue, fields=fields, parent=parent)

    def _shares(self, where: tuple[str, ...], value: object) -> dict[str, int]:
        found = {}
        for name, amount in self._checked(where, value, dict).items():
            if not is_resource(name):
                raise self._wrong((*where, name), f"{name[:64]!r} is no resource: cpu, memory")
            found[name] = self._amount((*where, name), resource_amount, amount)
        return found

    def _queue(self, where: tuple[str, ...], value: object) -> dict[str, Any]:
        found = {}
        for key, one in self._checked(where, value, dict).items():
            if key not in _QUEUE:
                raise self._wrong((*where, key), f"{key[:64]!r} is none of {', '.join(_QUEUE)}")
            name, kind = _QUEUE[key]
            found[name] = self._checked((*where, key), one, kind)
            if kind is int and found[name] < 0:
                raise self._wrong((*where, key), "it is below 0")
        return found

    def _checked(self, where: tuple[str, ...], value: object, kind: type) -> Any:
        words = {
            str: "text",
            bool: "true or false",
            int: "a whole number",
            dict: "keys with values",
        }
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self._wrong(where, f"it is not {words[kind]}")
        choices = _CHOICES.get(where[-1])
        if choices is not None and value not in choices:
            raise self._wrong(where, f"it is none of {', '.join(choices)}")
        return value

    def _amount(self, where: tuple[str, ...], amount: Any, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._wrong(where, "no amount")
        try:
            return int(amount(where[-1], value)[0])
        except QuantityError as error:
            raise self._wrong(where, str(error)) from None

    def _wrong(self, where: tuple[str, ...], why: str) -> SettingsError:
        line = self._file.line((SECTION, *where))
        return SettingsError(f"{self._path}, line {line}: {'.'.join((SECTION, *where))}: {why}")


def tried_limits(
    select: Select, cluster: str, tried: Limits, first: int, last: int
) -> Comparison[Changed, QuotaGroup]:
    """Quotas on the history after the event ``first`` up to ``last``. Raises SettingsError for an unknown quota."""
    journals = _journals(select, cluster, tried, last)
    trees: dict[str, str] = {}
    parents: dict[str, str] = {}
    for name, entries in journals.of.items():
        for fact in [entry.fact for entry in entries]:
            if isinstance(fact, QuotaDeclared):
                trees[fact.quota], parents[fact.quota] = name, fact.parent
    for quota, one in tried.items():
        if quota not in trees:
            raise SettingsError(f"there was no quota {quota[:64]!r}: bursar quota tree shows all")
        if one.parent is not None:
            parents[quota] = one.parent
            if one.parent and trees.get(one.parent) != trees[quota]:
                raise SettingsError(f"{quota}: {one.parent[:64]!r} is no quota of the same tree")
    for quota in tried:
        _check_above(quota, parents)
    end = event_at(select, last)
    if end is None:
        raise LedgerError("the archive has no such event: see `bursar verify`", sequence=last)
    *groups, total = outcomes(played(journals.of, tried, first, until_us=end.time_us))
    return Comparison(tuple(total.changes), tuple(groups), total)


def _check_above(quota: str, parents: dict[str, str]) -> None:
    above, seen = parents.get(quota, ""), {quota}
    while above:
        if above in seen:
            raise SettingsError(f"{quota}: it would be above itself")
        seen.add(above)
        above = parents.get(above, "")


def _journals(select: Select, cluster: str, tried: Limits, last: int) -> RecordedJournals:
    """All journals up to an event; with waiting workloads, if a recorded or a tried quota has a queue."""
    waits = any(one.queue for one in tried.values()) or _waited(select, cluster, last)
    readers = Readers(MemoryTransport(), SystemClock(), cluster=cluster, source="lab")
    journals = RecordedJournals(readers if waits else None)
    types = [fact.wire_type for fact in (READS if waits else JOURNAL)]
    for part in archived(select, cluster, types, until=last, apart=False):
        for event in part:
            journals.apply(event)
    return journals


def _waited(select: Select, cluster: str, last: int) -> bool:
    """Whether any quota of the cluster had a queue."""
    declared = facts(archived(select, cluster, (QuotaDeclared.wire_type,), until=last))
    return any(
        isinstance(fact, QuotaDeclared) and fact.spec is not None and fact.spec.queue.hold
        for _, fact in declared
    )
