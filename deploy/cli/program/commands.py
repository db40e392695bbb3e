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
    "up": Entry(
        "processes.up",
        "Follow the cluster there is and write its ledger.",
    ),
    "webhook": Entry(
        "processes.webhook",
        "Answer admission reviews in one more process.",
    ),
    "watch": Entry(
        "processes.apart",
        "Follow the cluster, and do nothing else.",
    ),
    "ledger": Entry(
        "processes.apart",
        "Write the ledger, and do nothing else.",
    ),
    "act": Entry(
        "processes.apart",
        "Keep the quotas, decide and act.",
    ),
    "api": Entry(
        "processes.api",
        "Answer questions to the ledger over HTTPS, for `kubectl bursar` and other programs.",
    ),
    "hub": Entry(
        "processes.hub",
        "Write the ledgers of many clusters, each from a mirror of its history on a NATS of the hub.",
    ),
    "clusters": Entry(
        "processes.hub",
        "Every cluster of a hub: up to which event it is known, and whether its link is up.",
    ),
    "status": Entry(
        "cli.status",
        "How far the ledger is, what is parked, and how safe the bus is.",
    ),
    "report": Entry(
        "cli.usage.asking", "Who used how much: exact sums of what pods held, by any groups."
    ),
    "acct": Entry(
        "cli.usage.asking",
        "What is on each pod's account.",
    ),
    "diff": Entry(
        "cli.usage.diff",
        "What changed between two moments: use by team, pods by namespace, quotas, and what was published and decided.",
    ),
    "devices": Entry(
        "cli.usage.devices",
        "Card by card who holds which part by a claim and since when, what is reserved, and what is idle.",
    ),
    "get": Group(
        "What there is, one line each.",
        {
            "quotas": Entry(
                "cli.quotas.listing",
                "Every quota in one line: what is used and allowed of each key.",
            ),
        },
    ),
    "quota": Group(
        "Quotas: the tree, one of them, what counts against it, and what would be admitted.",
        {
            "tree": Entry(
                "cli.quotas.listing",
                "All quotas as the tree that they are: each below its parent.",
            ),
            "show": Entry(
                "cli.quotas.show",
                "One quota: each key with its limit, who holds how much, its conditions.",
            ),
            "explain": Entry(
                "cli.quotas.explain",
                "What counts against a quota, item by item, and why.",
            ),
            "forecast": Entry(
                "cli.quotas.forecast",
                "When will what runs in each quota reach its limits?",
            ),
            "check": Entry(
                "cli.quotas.check",
                "Would these objects be admitted now.",
            ),
        },
    ),
    "budget": Group(
        "Budgets: what is spent and left, and credits beside them.",
        {
            "list": Entry(
                "cli.quotas.budgets",
                "What is left of each budget at the ledger's moment, in hours.",
            ),
            "forecast": Entry(
                "cli.quotas.budget_forecast",
                "When will each budget be used up? By the changes between past days, not by what runs at this moment.",
            ),
            "shares": Entry(
                "cli.quotas.shares",
                "Each cluster's share of a budget that spans clusters, and what to move so that all shares last equally long.",
            ),
            "credit": Entry(
                "cli.quotas.budgets",
                "Give a quota more budget for one period, or take some back.",
            ),
        },
    ),
    "queue": Group(
        "Workloads that wait for their quota.",
        {
            "show": Entry(
                "cli.queue",
                "Who waits in which place, for how much of what.",
            ),
            "move": Entry(
                "cli.queue",
                "Give what waits another place.",
            ),
            "hold": Entry(
                "cli.queue",
                "Keep what waits from starting.",
            ),
            "release": Entry(
                "cli.queue", "Let what was held by `bursar queue hold` come in its turn again."
            ),
        },
    ),
    "agreement": Entry(
        "cli.shadow",
        "Go or no-go: what each reactor decided in shadow, and what whatever is installed, or people, did instead.",
    ),
    "schedule": Group(
        "Placing pods on nodes.",
        {
            "check": Entry(
                "cli.scheduling.schedule",
                "Which node would these pods get now, and if none, what is the smallest change with which one would"
                " take them.",
            ),
            "queue": Entry(
                "cli.scheduling.schedule",
                "Which pods wait for a node: in which order, which node each would get now, and why none.",
            ),
            "scores": Entry(
                "cli.scheduling.scores",
                "Every node as the scheduler saw it when it chose one for a pod: its score from each plugin, or who refused it.",
            ),
            "agreement": Entry(
                "cli.scheduling.agreement",
                "How often the scheduler's shadow chose the node on which the pod is.",
            ),
        },
    ),
    "jobs": Group(
        "Training jobs: the next steps of each, decided beside their operator.",
        {
            "list": Entry(
                "cli.jobs.jobs",
                "Every training job: its state, its pods, and which steps are due.",
            ),
            "show": Entry(
                "cli.jobs.jobs",
                "One job, pod by pod: what is due, and the labels and variables by which its pods find each other.",
            ),
            "agreement": Entry(
                "cli.jobs.jobs",
                "How often the steps that were decided in shadow are those that the operator took.",
            ),
            "hours": Entry(
                "cli.jobs.hours",
                "Core- and GPU-hours of training jobs, and how much of them restarts lost.",
            ),
        },
    ),
    "why": Entry(
        "cli.explaining.why",
        "What was decided and why, with the numbers of each decision.",
    ),
    "evictions": Entry(
        "cli.evictions",
        "The newest evictions: which pod, for which quota, why, on which numbers.",
    ),
    "notebooks": Entry(
        "cli.culling",
        "Every running notebook: is it used, since when not, when is it stopped.",
    ),
    "cull": Group(
        "Culling of idle notebooks: simulate it, undo it.",
        {
            "simulate": Entry(
                "cli.culling",
                "What culling would have done by recorded evidence: who is stopped.",
            ),
            "undo": Entry(
                "cli.culling",
                "Give back what a cull stopped, by the object's own means.",
            ),
        },
    ),
    "lab": Group(
        "Recorded history under another policy: what would have been decided, and what that saves.",
        {
            "run": Entry(
                "cli.lab.run",
                "What another policy would have decided on what was recorded, and the hours that it saves.",
            ),
            "suggest": Entry(
                "cli.lab.suggest",
                "Try a grid of idle limits and warnings on what was recorded, and show which no other one beats.",
            ),
            "quotas": Entry(
                "cli.lab.quotas",
                "Who would have been let in, refused, or have waited, had quotas had other limits.",
            ),
            "evictions": Entry(
                "cli.lab.evictions",
                "Which pods another policy would have evicted so that quotas are held to, and the hours that it frees.",
            ),
            "scheduling": Entry(
                "cli.lab.scheduling",
                "Which nodes another policy of the scheduler would have given to pods, and how long they would have waited.",
            ),
        },
        default="run",
    ),
    "capsule": Group(
        "Capsules: a policy, a slice of history, and what is decided on it, in one file.",
        {
            "export": Entry(
                "cli.lab.capsules",
                "Write a capsule: a slice of history, a policy, and the decisions that follow.",
            ),
            "run": Entry(
                "cli.lab.capsules",
                "Decide a capsule's history again, and show what differs from what it expects.",
            ),
        },
    ),
    "test": Entry(
        "cli.lab.capsules",
        "Run all capsules of a folder: does this Bursar still decide what they expect.",
    ),
    "pause": Entry(
        "cli.reactors",
        "Stop every reactor at once.",
    ),
    "resume": Entry(
        "cli.reactors",
        "Let the reactors go on.",
    ),
    "events": Entry(
        "cli.history.events", "What was published: the newest events, the history of one thing."
    ),
    "sql": Entry("cli.history.events", "Ask the ledger in SQL, read-only."),
    "export": Entry(
        "cli.history.events",
        "Write the history to files that `bursar import events` reads.",
    ),
    "history": Group(
        "The sealed segments of a long history.",
        {
            "segments": Entry(
                "cli.history.segments",
                "The sealed segments: which events each holds, whether the table has them too, and whether its file is there.",
            ),
            "seal": Entry(
                "cli.history.segments",
                "Seal what came since the last segment, in segments of `history.segment_events`.",
            ),
            "trim": Entry(
                "cli.history.segments",
                "Take out of the ledger's table what sealed segments hold, after each was read and checked.",
            ),
        },
    ),
    "import": Group(
        "Take recorded events in. Importing the same again changes nothing.",
        {
            "openb": Entry(
                "cli.history.imports",
                "Play the GPU cluster trace openb (8,152 pods) as if it were watched.",
            ),
            "events": Entry(
                "cli.history.imports",
                "Import events in the documented envelope, as `bursar export` writes them.",
            ),
        },
    ),
    "backup": Entry(
        "cli.history.backups",
        "Keep the whole history elsewhere, also while `bursar up` runs.",
    ),
    "restore": Entry(
        "cli.history.backups",
        "Make a ledger from a backup: every file is checked, every row folded anew.",
    ),
    "verify": Entry(
        "cli.history.keeping",
        "Recompute the hash chain of all events and hold it against checkpoint and signed heads.",
    ),
    "replay": Entry(
        "cli.history.keeping",
        "Rebuild every row from the archive beside the live ones, and compare.",
    ),
    "recover": Entry(
        "cli.history.keeping",
        "Bring bus and ledger together after one of them lost something.",
    ),
    "parked": Group(
        "Events that could not be read or folded. They are kept, and in no figure.",
        {
            "list": Entry("cli.history.keeping", "Every parked event and why it was parked."),
            "show": Entry("cli.history.keeping", "One parked event as it was published."),
            "redrive": Entry(
                "cli.history.keeping",
                "Fold parked events once more, after a fix.",
            ),
        },
    ),
    "config": Group(
        "Settings: which are in force, and where each comes from.",
        {
            "show": Entry(
                "cli.installing.config", "Every setting in force, and where it comes from."
            )
        },
    ),
    "manifests": Entry(
        "cli.installing.manifests",
        "Print what runs Bursar in a cluster, for `kubectl apply -f -`.",
    ),
    "install": Entry(
        "cli.installing.manifests",
        "What would an installation change in this cluster, and what is each right for.",
    ),
    "bench": Group(
        "Measure the rules on recorded traces, beside any ledger.",
        {
            "bind": Entry(
                "cli.scheduling.bench",
                "How much of the GPU cluster openb each packing policy allocates while more pods arrive than fit.",
            )
        },
    ),
    "version": Entry("cli.program.version", "The version of this program."),
}
