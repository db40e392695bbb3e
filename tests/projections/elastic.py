"""Elastic quotas and pods that come and go."""

from bus.clock import format_stamp
from tests import factories as f


def elastic(name, namespace="ns", version=1, at=0, created=-1_000, uid="", **fields):
    """An ElasticQuota was seen; ``created`` None: it does not say when it was made."""
    stamp = None if created is None else format_stamp(f.us(created))
    return f.quota_observed(
        name, version, at, kind="ElasticQuota", namespace=namespace, uid=uid or f"{namespace}-{name}",
        created=stamp, **fields,
    )  # fmt: skip


def gone(name, namespace="ns", version=9, at=100, uid=""):
    return f.quota_vanished(
        name,
        version,
        at,
        kind="ElasticQuota",
        namespace=namespace,
        uid=uid or f"{namespace}-{name}",
    )


def pod(uid="p", namespace="ns", labels=None, **fields):
    fields = {"created": 0, "scheduled": 0, **fields}
    return f.pod_observed(uid, namespace=namespace, labels=labels or {}, **fields)
