"""The list of commands: their modules, and the first sentences of
their help. Plain data: help and completion import no command.

A command is added by an entry here and by ``register`` in its module. A test compares the texts with the commands' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A command: its module in :mod:`deploy` with ``register``, and its purpose."""

    module: str
    help: str


@dataclass(frozen=True)
class Group:
    """A group of commands, and its subject."""

    help: str
    commands: Mapping[str, Entry]
    #: The default command for options after the group's own name; "" = none.
    default: str = ""


COMMANDS: Mapping[str, Entry | Group] = {
    "up": Entry("processes.up", "Follow the cluster and write its ledger."),
    "webhook": Entry("processes.webhook", "Answer admission reviews in another process."),
    "watch": Entry("processes.apart", "Follow the cluster, and publish its events."),
    "ledger": Entry("processes.apart", "Write the ledger from the bus."),
    "act": Entry("processes.apart", "Enforce quotas, decide and act."),
    "api": Entry("processes.api", "Answer questions over HTTPS, for `kubectl bursar`."),
    "hub": Entry(
        "processes.hub",
        "Write the ledgers of many clusters.",
    ),
    "clusters": Entry("processes.hub", "Clusters of a hub: the newest event and the link of each."),
    "status": Entry("cli.status", "Health of Bursar: ledger, bus, sources, parked events."),
    "report": Entry("cli.usage.asking", "Usage by team, user, node or any other groups."),
    "acct": Entry("cli.usage.asking", "The account of each pod: one row per interval."),
    "diff": Entry("cli.usage.diff", "Changes between two moments: usage, pods, quotas, events."),
    "devices": Entry(
        "cli.usage.devices", "GPU cards of each node: holders, reserved and idle parts."
    ),
    "get": Group(
        "Lists of objects, one a line.",
        {
            "quotas": Entry(
                "cli.quotas.listing", "Quotas, one a line: used amounts, limits and budgets."
            ),
        },
    ),
    "quota": Group(
        "Quotas: tree, details, explanation, forecast, check.",
        {
            "tree": Entry("cli.quotas.listing", "Quotas as a tree, with a line for each key."),
            "show": Entry(
                "cli.quotas.show", "One quota: limits, holders, conditions, last refusals."
            ),
            "explain": Entry(
                "cli.quotas.explain", "Items that count against a quota, with reasons."
            ),
            "forecast": Entry("cli.quotas.forecast", "When will each quota reach its limits?"),
            "check": Entry("cli.quotas.check", "Would these objects be admitted now?"),
        },
    ),
    "budget": Group(
        "Budgets: spent and left hours, forecasts, credits.",
        {
            "list": Entry("cli.quotas.budgets", "Budgets in hours: credits, spent and left."),
            "forecast": Entry("cli.quotas.budget_forecast", "When will each budget be used up?"),
            "shares": Entry("cli.quotas.shares", "Shares of budgets that span clusters."),
            "credit": Entry(
                "cli.quotas.budgets", "Credit a quota's budget for one period, or take hours back."
            ),
        },
    ),
    "queue": Group(
        "Workloads that wait for their quota.",
        {
            "show": Entry("cli.queue", "Waiting workloads: place, missing amounts, latest start."),
            "move": Entry("cli.queue", "Change a waiting workload's place."),
            "hold": Entry("cli.queue", "Keep a waiting workload from starting."),
            "release": Entry("cli.queue", "End a `bursar queue hold`."),
        },
    ),
    "agreement": Entry("cli.shadow", "Go or no-go for each reactor, by its shadow decisions."),
    "schedule": Group(
        "Placement of pods on nodes: queue, check, scores.",
        {
            "check": Entry("cli.scheduling.schedule", "Which node would these pods get now?"),
            "queue": Entry(
                "cli.scheduling.schedule", "Pods that wait for a node, in the order of attempts."
            ),
            "scores": Entry(
                "cli.scheduling.scores",
                "Scores of all nodes for one placement.",
            ),
            "agreement": Entry(
                "cli.scheduling.agreement",
                "Shadow placements, compared with each pod's actual node.",
            ),
        },
    ),
    "simulate": Group(
        "What Bursar would do on the recorded state. Nothing is changed.",
        {
            "rebalance": Entry(
                "cli.scheduling.rebalance",
                "Pods that one round of rebalancing would move, and where to.",
            ),
        },
    ),
    "jobs": Group(
        "Training jobs: state, next steps, hours.",
        {
            "list": Entry("cli.jobs.jobs", "Training jobs: state, pods and due steps."),
            "show": Entry("cli.jobs.jobs", "One job, pod by pod: due steps, labels and variables."),
            "agreement": Entry(
                "cli.jobs.jobs", "Steps decided in shadow, compared with the operator's."
            ),
            "hours": Entry(
                "cli.jobs.hours", "Hours of training jobs, and hours that restarts lost."
            ),
        },
    ),
    "why": Entry("cli.explaining.why", "Decisions about a workload, pod or quota, with reasons."),
    "evictions": Entry(
        "cli.evictions", "The newest evictions: pod, quota, reason, numbers and result."
    ),
    "notebooks": Entry(
        "cli.culling", "Running notebooks: activity, idle time, next stop, evidence."
    ),
    "cull": Group(
        "Culling of idle notebooks: simulate, undo.",
        {
            "simulate": Entry("cli.culling", "Stops by an idle limit on recorded evidence."),
            "undo": Entry("cli.culling", "Start a culled notebook again."),
        },
    ),
    "lab": Group(
        "Recorded history under another policy: decisions, savings.",
        {
            "run": Entry("cli.lab.run", "Another culling policy on recorded history: hours saved."),
            "suggest": Entry(
                "cli.lab.suggest", "Try a grid of idle limits and warnings, and mark the best."
            ),
            "quotas": Entry(
                "cli.lab.quotas",
                "Other limits or queues on recorded history: starts, waits.",
            ),
            "evictions": Entry(
                "cli.lab.evictions", "Another eviction policy on recorded history: pods, hours."
            ),
            "scheduling": Entry(
                "cli.lab.scheduling", "Another scheduling policy on recorded history: nodes, waits."
            ),
        },
        default="run",
    ),
    "capsule": Group(
        "Capsules: history, policy and decisions in one file.",
        {
            "export": Entry(
                "cli.lab.capsules",
                "Write a capsule: a slice of history, a policy and its decisions.",
            ),
            "run": Entry(
                "cli.lab.capsules", "Decide a capsule again, and show differences to its decisions."
            ),
        },
    ),
    "test": Entry(
        "cli.lab.capsules", "Run all capsules of a folder: are decisions still the same?"
    ),
    "pause": Entry("cli.reactors", "Stop all reactors: no decisions, no actions."),
    "resume": Entry("cli.reactors", "Start paused reactors again."),
    "events": Entry(
        "cli.history.events",
        "Published events: the newest, or those of one key.",
    ),
    "sql": Entry("cli.history.events", "Query the ledger in SQL, read-only."),
    "export": Entry(
        "cli.history.events",
        "Write the history to files for `bursar import events`.",
    ),
    "history": Group(
        "Sealed segments of a long history.",
        {
            "segments": Entry(
                "cli.history.segments", "Sealed segments: events, file, and copies in the table."
            ),
            "seal": Entry("cli.history.segments", "Seal the events since the last segment."),
            "trim": Entry(
                "cli.history.segments", "Delete events of checked segments from the ledger's table."
            ),
        },
    ),
    "import": Group(
        "Import recorded events. Repeats change nothing.",
        {
            "openb": Entry(
                "cli.history.imports",
                "Play the GPU cluster trace openb (8,152 pods) as if observed.",
            ),
            "events": Entry("cli.history.imports", "Import events that `bursar export` wrote."),
        },
    ),
    "backup": Entry(
        "cli.history.backups", "Back up the whole history, also while `bursar up` runs."
    ),
    "restore": Entry("cli.history.backups", "Restore a ledger from a backup."),
    "verify": Entry("cli.history.keeping", "Check hash chain, signed heads, snapshots and views."),
    "replay": Entry("cli.history.keeping", "Compute all rows again from the history, and compare."),
    "recover": Entry("cli.history.keeping", "Repair bus and ledger after one of them lost data."),
    "parked": Group(
        "Events that could not be read. They count in no figure.",
        {
            "list": Entry("cli.history.keeping", "Parked events, each with its reason."),
            "show": Entry("cli.history.keeping", "One parked event as it was published."),
            "redrive": Entry("cli.history.keeping", "Fold parked events again, after a fix."),
        },
    ),
    "config": Group(
        "Settings in force, each with its source.",
        {"show": Entry("cli.installing.config", "Settings in force, each with its source.")},
    ),
    "manifests": Entry(
        "cli.installing.manifests", "Print manifests of Bursar for `kubectl apply -f -`."
    ),
    "install": Entry("cli.installing.manifests", "Preview an installation: changes and rights."),
    "bench": Group(
        "Benchmarks of scheduling on recorded traces.",
        {
            "bind": Entry(
                "cli.scheduling.bench",
                "Allocated cards of each packing policy on the trace openb.",
            )
        },
    ),
    "version": Entry("cli.program.version", "The version of this program."),
}
