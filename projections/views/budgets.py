"""The rest of each budget at the moment of its cluster, from the same rows and by the same rules as
:mod:`projections.budgets.queries`.
"""

from __future__ import annotations

from projections.attribution import AMOUNTS
from projections.timelines import HOUR
from projections.views.shape import CLUSTER, View, at, is_, moment

#: The first whole hour of a period, and the hour around its beginning.
_FIRST = f"((b.start_s + {HOUR - 1}) / {HOUR} * {HOUR})"
_PART = f"(b.start_s / {HOUR} * {HOUR})"


def _by_resource(expressions: dict[str, str]) -> str:
    """The expression of a budget's resource."""
    cases = " ".join(f"WHEN b.account LIKE '{r}%' THEN {text}" for r, text in expressions.items())
    return f"CASE {cases} END"


_AMOUNT = _by_resource({resource: f"h.{amount}" for resource, (amount, _) in AMOUNTS.items()})
_ACCOUNT = _by_resource(
    {
        resource: f"'{resource}' || CASE WHEN h.{type_} = '' THEN '' ELSE '.' || h.{type_} END"
        for resource, (_, type_) in AMOUNTS.items()
    }
)


def _is_paid(account: str) -> str:
    # "/" is the character after ".": all accounts with the budget's and a dot as prefix.
    return f"({account} = b.account OR ({account} > b.account || '.' AND {account} < b.account || '/'))"


def _later(one: str, other: str) -> str:
    return f"CASE WHEN {one} > {other} THEN {one} ELSE {other} END"


def _earlier(one: str, other: str) -> str:
    return f"CASE WHEN {one} < {other} THEN {one} ELSE {other} END"


#: The moment of the cluster of a budget.
_NOW = moment("b.cluster")

_WITH = f"""WITH hours AS (
  SELECT b.uid, b.key, SUM(s.open_amount) AS rate, MAX(s.sequence) AS sequence,
    SUM(CASE WHEN s.hour_s >= {_FIRST}
      THEN s.spent + s.open_amount * ({_NOW} - s.hour_s) - s.open_missed
      WHEN s.hour_s < {_PART} THEN s.open_amount * ({_NOW} - b.start_s) ELSE 0 END) AS spent
  FROM budgets b JOIN budget_spends s ON s.cluster = b.cluster AND s.quota = b.quota
    AND {_is_paid("s.account")} AND (s.hour_s >= {_PART} OR s.open_amount > 0)
  GROUP BY b.uid, b.key
), part AS (
  SELECT b.uid, b.key, SUM({_AMOUNT} * CASE
      WHEN h.end_s IS NOT NULL THEN {_earlier("h.end_s", _FIRST)} - {_later("h.start_s", "b.start_s")}
      WHEN h.start_s >= {_PART} THEN {_NOW} - {_later("h.start_s", "b.start_s")}
      ELSE 0 END) AS spent
  FROM budgets b JOIN held_segments h ON h.cluster = b.cluster AND h.quota = b.quota
    AND h.quota <> '' AND {_is_paid(_ACCOUNT)}
  WHERE b.start_s % {HOUR} <> 0 AND h.start_s < {_FIRST}
    AND (h.end_s IS NULL OR h.end_s > b.start_s)
  GROUP BY b.uid, b.key
), bounded AS (
  SELECT b.uid, b.key, {_AMOUNT} AS amount, {_later("h.start_s", _NOW)} AS from_s,
    CASE WHEN b.end_s < p.deadline_s THEN b.end_s ELSE p.deadline_s END AS until_s
  FROM budgets b JOIN held_segments h ON h.cluster = b.cluster AND h.quota = b.quota
    AND h.quota <> '' AND h.end_s IS NULL AND {_is_paid(_ACCOUNT)}
  JOIN pod_runs p ON p.uid = h.uid AND p.deadline_s IS NOT NULL
), committed AS (
  SELECT uid, key, SUM(amount * (until_s - from_s)) AS amount FROM bounded
  WHERE until_s > from_s GROUP BY uid, key
), credited AS (
  SELECT b.uid, b.key, SUM(e.amount) AS amount
  FROM budgets b JOIN budget_entries e ON e.cluster = b.cluster AND e.quota = b.quota
    AND e.key = b.key AND e.since_us / 1000000 >= b.start_s
    AND (b.end_s IS NULL OR e.since_us / 1000000 < b.end_s)
  GROUP BY b.uid, b.key
), sums AS (
  SELECT b.*, CAST(COALESCE(c.amount, 0) AS bigint) AS credits,
    CAST(COALESCE(hours.spent, 0) + COALESCE(part.spent, 0) AS bigint) AS spent,
    CAST(COALESCE(hours.rate, 0) AS bigint) AS rate,
    CAST(COALESCE(committed.amount, 0) AS bigint) AS committed,
    {_later("b.sequence", "COALESCE(hours.sequence, 0)")} AS newest
  FROM budgets b JOIN quotas q ON q.uid = b.uid AND q.vanished = 0
  LEFT JOIN hours ON hours.uid = b.uid AND hours.key = b.key
  LEFT JOIN part ON part.uid = b.uid AND part.key = b.key
  LEFT JOIN committed ON committed.uid = b.uid AND committed.key = b.key
  LEFT JOIN credited c ON c.uid = b.uid AND c.key = b.key
), stands AS (
  SELECT s.*, CASE WHEN is_granted = 1 THEN hard + credits ELSE 0 END - spent AS remaining
  FROM sums s
), forecasts AS (
  SELECT s.*, CASE WHEN remaining <= 0 THEN {moment("s.cluster")}
    WHEN rate > 0 THEN {moment("s.cluster")} + (remaining + rate - 1) / rate END AS reached_s
  FROM stands s
), valued AS (
  SELECT f.*, CASE WHEN end_s IS NULL OR reached_s < end_s THEN reached_s END AS exhausts_s
  FROM forecasts f
)
"""

#: Unit·seconds of an hour: milli-units of cores and cards, MiB of GiB.
_HOURS = (
    "CAST({0} AS double precision) / CASE WHEN account LIKE 'memory%' THEN 3686400 ELSE 3600000 END"
)

_BUDGET = View(
    "v1_budget",
    "One row for each key of a quota's cash: what is spent and left of its budget in the period that holds its cluster's moment.",
    (
        CLUSTER,
        is_("quota", "The quota's name."),
        is_("key", "The budget's key, without `cash/`: `limits.cpu`, `limits.cpu.A4` …"),
        is_("start_s", "The first second of the period; 0 for a budget that never begins anew."),
        at("start_at", "The same as text.", "start_s"),
        is_("end_s", "The second after the period; NULL where it has no end."),
        at("end_at", "The same as text.", "end_s"),
        is_(
            "is_granted",
            "0 between explicit windows, where nothing may be spent.",
        ),
        is_("hard", "The budget: milli-core-seconds, milli-card-seconds or MiB-seconds."),
        is_("credits", "What the entries of the period add to it; below 0 where they take away."),
        is_("spent", "What is spent in the period, open segments up to its cluster's moment."),
        is_("rate", "What is spent each second from then on: the amount of what is open."),
        is_(
            "committed",
            "What open pods with a deadline may still spend until it, or until the period's end.",
        ),
        is_("remaining", "What is left; below 0 where more is spent than there was."),
        is_(
            "exhausts_s",
            "The second at which nothing is left at this rate; its cluster's moment if nothing is; NULL if the period ends before.",
        ),
        at("exhausts_at", "The same as text.", "exhausts_s"),
        is_("hard_hours", "The budget in core-, card- or GiB-hours.", _HOURS.format("hard")),
        is_("spent_hours", "What is spent, in the same hours.", _HOURS.format("spent")),
        is_("remaining_hours", "What is left, in the same hours.", _HOURS.format("remaining")),
        is_("sequence", "The last event that changed what is said here.", "newest"),
    ),
    "FROM valued",
    _WITH,
)

BUDGETS = (_BUDGET,)
