"""Every question about a cluster, as a test asks it of the recording."""

#: Events of the recording that are asked about.
LENGTH = 2_400
POD = """
{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: vision}, spec: {containers: [
  {name: c, image: i, resources: {requests: {cpu: "1"}}}]}}
"""
#: Every question about the cluster, with what it needs. FILE is a manifest.
QUESTIONS = (
    ("acct",), ("agreement", "--from", "1d"), ("budget", "forecast"), ("budget", "list"),
    ("cull", "simulate", "--idle", "30m", "--from", "6h"), ("devices",),
    ("diff", "--from", "1h", "--to", str(LENGTH)), ("evictions",),
    ("get", "quotas"), ("jobs", "agreement"), ("jobs", "hours"), ("jobs", "list"), ("notebooks",),
    ("queue", "show"), ("quota", "check", "FILE"), ("quota", "explain", "vision"),
    ("quota", "forecast"), ("quota", "show", "vision"), ("quota", "tree"),
    ("report", "--from", "6h", "--by", "team"), ("schedule", "agreement"), ("schedule", "check", "FILE"),
    ("schedule", "queue"), ("why", "vision"),
)  # fmt: skip
