"""Views of the journals of quota trees: answers to requests, charges by object, and the use of each key.

``used`` equals the result of :class:`projections.quota_trees.tree.Tree`; a test compares the two.
"""

from __future__ import annotations

from projections.views.shape import CLUSTER, NAMESPACE, SEQUENCE, View, is_, micros_at

_TREE = is_("tree", "The journal that it stands in: `biz/ROOT` or `elastic/TREE`.")
_QUOTA = is_("quota", "The quota's name.")

_ADMISSIONS = View(
    "v1_admissions",
    "One row for each decision about a workload, in the order of its tree's journal by `number`.",
    (
        is_("id", "The decision's identity; `bursar why` takes it."),
        CLUSTER,
        _TREE,
        is_("number", "Its place in the tree's journal, from 1 without gaps."),
        is_("time_us", "When it was decided, in microseconds UTC since 1970."),
        micros_at("time_at", "The same as text.", "time_us"),
        _QUOTA,
        is_("uid", "Of the object that asked."),
        is_("kind", "Its kind."),
        NAMESPACE,
        is_("name", "Its name, or the name that it was to be generated from."),
        is_("verdict", "`admitted`, `refused`, or `adopted`: it was there and never asked."),
        is_("reason", "A stable token: `fits`, `over-quota`, `budget-exhausted`, `ungoverned` …"),
        is_("operation", "CREATE or UPDATE of a review; OBSERVE where nobody asked."),
        is_("request", "The review's uid; empty where nobody asked."),
        is_("based_on", "The last event of the journal that the decision knew."),
        is_("demand", "JSON object of what it asked for: cpu in milli-cores, others whole."),
        is_("types", "JSON object of the models that its labels name: `cpu`, `gpu`, `memory`."),
        is_("charge", "JSON object of what the quota holds for it from then on; empty if refused."),
        is_(
            "deficits",
            "JSON list of the keys that refused (or warned): `used` + `asked` > `limit`.",
        ),
        SEQUENCE,
    ),
    "FROM admissions",
)

#: Valid rows of ``grants``: with a charge, of an existing quota, and newer than its last departure from the tree.
_COUNTED = (
    "grants g JOIN declared_quotas d ON d.cluster = g.cluster AND d.tree = g.tree"
    " AND d.quota = g.quota AND d.stands = 1 AND g.number > d.gone_number"
    " AND g.charge <> '{}' CROSS JOIN pairs(g.charge) j"
)

_GRANTS = View(
    "v1_grants",
    "One row for each key of what a quota holds for an object.",
    (
        is_("cluster", "The cluster, as its source names it.", "g.cluster"),
        is_("tree", "The journal that it stands in.", "g.tree"),
        is_("quota", "The quota's name.", "g.quota"),
        is_("uid", "Of the object.", "g.uid"),
        is_("kind", "Its kind.", "g.kind"),
        is_("namespace", "The namespace.", "g.namespace"),
        is_("name", "Its name.", "g.name"),
        is_("key", "The quota's key: `limits.cpu`, `requests.nvidia.com/gpu.A4` …", "j.key"),
        is_("amount", "What is held: cpu in milli-cores, others whole.", "CAST(j.value AS bigint)"),
        is_("is_adopted", "1 where it was there and was never admitted with that.", "g.is_adopted"),
        is_("decided_us", "When it was last admitted, in microseconds UTC.", "g.decided_us"),
        micros_at("decided_at", "The same as text.", "g.decided_us"),
        is_("number", "The entry of the journal that admitted it last.", "g.number"),
        is_(
            "sequence", "The last event that touched the row; join `v1_events` on it.", "g.sequence"
        ),
    ),
    f"FROM {_COUNTED}",
)

_HALF = 2**31
_MOST = 2**63 - 1


def _total(amount: str) -> str:
    """A sum bounded by 2^63 - 1: running pods may have any amount, and a failing view would hide all quotas."""
    high = f"CAST(SUM({amount} / {_HALF}) AS bigint)"
    low = f"CAST(SUM({amount} % {_HALF}) AS bigint)"
    return f"CASE WHEN {high} + {low} / {_HALF} >= {2**32} THEN {_MOST} ELSE {high} * {_HALF} + {low} END"


_WITH = f"""WITH amounts AS (
  SELECT g.cluster, g.tree, g.quota, j.key, CAST(j.value AS bigint) AS held, 0 AS claimed,
    CASE WHEN g.is_adopted = 1 THEN CAST(j.value AS bigint) ELSE 0 END AS ungoverned,
    1 AS objects, g.sequence FROM {_COUNTED}
  UNION ALL
  SELECT d.cluster, d.tree, d.parent, j.key, 0, CAST(j.value AS bigint), 0, 0, d.sequence
  FROM declared_quotas d CROSS JOIN pairs(d.claims) j WHERE d.stands = 1 AND d.parent <> ''
  UNION ALL
  SELECT d.cluster, d.tree, d.quota, j.key, 0, 0, 0, 0, d.sequence
  FROM declared_quotas d CROSS JOIN pairs(d.hard) j WHERE d.stands = 1
), sums AS (
  SELECT cluster, tree, quota, key, {_total("(held + claimed)")} AS used, {_total("held")} AS self_used,
    {_total("claimed")} AS claimed, {_total("ungoverned")} AS ungoverned,
    SUM(objects) AS objects, MAX(sequence) AS sequence
  FROM amounts GROUP BY cluster, tree, quota, key
), limits AS (
  SELECT d.cluster, d.tree, d.quota, j.key, CAST(j.value AS bigint) AS hard
  FROM declared_quotas d CROSS JOIN pairs(d.hard) j WHERE d.stands = 1
)
"""

_USAGE = View(
    "v1_quota_usage",
    "One row for each key of each quota that stands in a tree: its limit, and who uses how much of it.",
    (
        is_("cluster", "The cluster, as its source names it.", "s.cluster"),
        is_("tree", "The journal that it stands in: `biz/ROOT` or `elastic/TREE`.", "s.tree"),
        is_("quota", "The quota's name.", "s.quota"),
        is_("kind", "BizGroupResourceQuota or ElasticQuota.", "d.kind"),
        is_("parent", "The name of the quota above; empty for a root.", "d.parent"),
        is_("key", "The key; `requests.RESOURCE` for an ElasticQuota.", "s.key"),
        is_(
            "hard",
            "Its limit, the strictest of all that may hold; an ElasticQuota's max. NULL: not limited.",
            "l.hard",
        ),
        is_("used", "What its own workloads hold and the quotas below claim.", "s.used"),
        is_("self_used", "What its own workloads hold.", "s.self_used"),
        is_("claimed", "What the quotas below claim: their limits, used or not.", "s.claimed"),
        is_(
            "ungoverned",
            "Of `self_used`, what workloads hold that were never admitted with it.",
            "s.ungoverned",
        ),
        is_(
            "objects", "How many workloads hold something of the key.", "CAST(s.objects AS bigint)"
        ),
        is_("pending", "Changes of the quota that may still be on their way.", "d.pending"),
        is_("sequence", "The last event that touched what is said here.", "s.sequence"),
    ),
    "FROM sums s JOIN declared_quotas d ON d.cluster = s.cluster AND d.tree = s.tree"
    " AND d.quota = s.quota AND d.stands = 1\n"
    "LEFT JOIN limits l ON l.cluster = s.cluster AND l.tree = s.tree AND l.quota = s.quota"
    " AND l.key = s.key",
    _WITH,
)

#: In the order of the page.
ADMISSIONS = (_ADMISSIONS, _GRANTS, _USAGE)
