"""The parts of a view: columns with their expressions in each dialect, and the few differences between dialects."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

DIALECTS = ("sqlite", "postgresql")

#: The ledger's moment, whole seconds: the newest observation of any cluster.
NOW = "(SELECT MAX(observed_us) / 1000000 FROM evidence WHERE kind <> 'notebooks')"
#: The same with looks at notebooks.
LOOKED = "(SELECT MAX(observed_us) / 1000000 FROM evidence)"
#: How the pairs of a JSON object, or of an empty text, are rows ``key, value``, by dialect.
_PAIRS = {
    "sqlite": r"json_each(NULLIF(\1, ''))",
    "postgresql": r"json_each_text(CAST(NULLIF(\1, '') AS json))",
}


def moment(cluster: str) -> str:
    """The moment for open intervals of a cluster, whole seconds. ``cluster`` is an expression."""
    return (
        "(SELECT MAX(seen.observed_us) / 1000000 FROM evidence seen"
        f" WHERE seen.cluster = {cluster} AND seen.kind <> 'notebooks')"
    )


AMOUNTS = ("cpu_milli_s", "gpu_milli_s", "memory_mib_s")


class Column(msgspec.Struct, frozen=True):
    """A column of a view: its name, its expression in each dialect, and one sentence for its reader."""

    name: str
    expressions: Mapping[str, str]
    meaning: str


class View(msgspec.Struct, frozen=True):
    """A view: its purpose, its columns, their source, and its whole text in each dialect.

    ``pairs(column)`` stands for the pairs of a JSON object as rows ``key, value``, none of an empty text; CAST the value.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    source: str
    with_: str = ""

    @property
    def sql(self) -> dict[str, str]:
        """The query by dialect."""
        return {dialect: self._query(dialect) for dialect in DIALECTS}

    def created(self, dialect: str) -> str:
        """The statement to create it."""
        return f"CREATE VIEW {self.name} AS\n{self.sql[dialect]}"

    def _query(self, dialect: str) -> str:
        chosen = ",\n  ".join(f"{c.expressions[dialect]} AS {c.name}" for c in self.columns)
        text = f"{self.with_}SELECT\n  {chosen}\n{self.source}"
        return re.sub(r"\bpairs\(([a-z_.]+)\)", _PAIRS[dialect], text)


def is_(name: str, meaning: str, expression: str = "", postgresql: str = "") -> Column:
    """A column; without an expression it is the column of that name."""
    both = expression or name
    return Column(name, {"sqlite": both, "postgresql": postgresql or both}, meaning)


def at(name: str, meaning: str, seconds: str, micros: str = "") -> Column:
    """A stamp as text, from whole seconds, or from microseconds where ``micros`` is given."""
    lite = f"strftime('%Y-%m-%dT%H:%M:%S', {seconds}, 'unixepoch')"
    form, post = 'YYYY-MM-DD"T"HH24:MI:SS', f"timestamp 'epoch' + {seconds} * interval '1 second'"
    end = "'Z'"
    if micros:
        end = f"'.' || substr(CAST({micros} % 1000000 + 1000000 AS TEXT), 2) || 'Z'"
    return Column(
        name,
        {"sqlite": f"{lite} || {end}", "postgresql": f"to_char({post}, '{form}') || {end}"},
        meaning,
    )


def micros_at(name: str, meaning: str, micros: str) -> Column:
    """A stamp as text to the microsecond."""
    return at(name, meaning, f"({micros} / 1000000)", micros)


def hexadecimal(name: str, meaning: str, column: str) -> Column:
    """Bytes as lower-case hexadecimal text."""
    return is_(name, meaning, f"lower(hex({column}))", f"encode({column}, 'hex')")


def hours(amounts: Mapping[str, str]) -> tuple[Column, ...]:
    """Amounts as exact integers, and beside them in hours."""
    cpu, gpu, memory = (amounts[name] for name in AMOUNTS)
    return (
        is_("cpu_milli_s", "CPU held, in milli-core-seconds: the exact amount.", cpu),
        is_("gpu_milli_s", "GPU held, in milli-card-seconds: the exact amount.", gpu),
        is_("memory_mib_s", "Memory held, in MiB-seconds: the exact amount.", memory),
        is_("core_hours", "CPU held, in core-hours.", f"CAST({cpu} AS double precision) / 3600000"),
        is_("gpu_hours", "GPU held, in card-hours.", f"CAST({gpu} AS double precision) / 3600000"),
        is_(
            "memory_gib_hours",
            "Memory held, in GiB-hours.",
            f"CAST({memory} AS double precision) / 3686400",
        ),
    )


SEQUENCE = is_("sequence", "The last event that touched the row; join `v1_events` on it.")
CLUSTER = is_("cluster", "The cluster, as its source names it.")
VANISHED = is_("vanished", "1 where it is no longer there.")
TEAM = is_("team", "The team that is charged; `unassigned` where nobody is named.")
USER = is_("user_name", "The user that is charged; `unassigned` where nobody is named.")
NAMESPACE = is_("namespace", "The namespace.")
WORKLOAD = is_(
    "workload",
    "The top of the chain of controllers, `Kind/name`; the pod itself where there is none.",
)
