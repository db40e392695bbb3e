"""Views of the history: the checkpoint, the events, and the parked events."""

from __future__ import annotations

from projections.views.shape import CLUSTER, NOW, View, hexadecimal, is_, micros_at

_OBSERVED = "(SELECT MAX(observed_us) FROM evidence WHERE kind <> 'notebooks')"

_LEDGER = View(
    "v1_ledger",
    "One row: as of which event everything above is said, and of which history. No row: nothing was folded yet.",
    (
        is_("sequence", "The last event in the ledger."),
        is_(
            "observed_s",
            "The ledger's moment: the newest observation of any cluster (`v1_evidence` has each). What came after is unknown.",
            NOW,
        ),
        micros_at("observed_at", "The same as text, to the microsecond.", _OBSERVED),
        is_(
            "parked",
            "Events that are parked: figures lack what they say.",
            "(SELECT COUNT(*) FROM parked)",
        ),
        is_("stream", "The stream that the history is read from."),
        micros_at("stream_created_at", "When that stream was created.", "stream_created_us"),
        is_("incarnation", "How many streams have carried this history so far."),
        is_("version", "The version of the rules that the rows were folded by."),
        hexadecimal("digest", "SHA-256 of the last event, hexadecimal.", "digest"),
        hexadecimal(
            "chain",
            "SHA-256 over all events, hexadecimal: equal chains are equal histories.",
            "chain",
        ),
    ),
    "FROM checkpoints WHERE name = 'ledger'",
)

_READABLE = "e.defect = '' AND NOT EXISTS (SELECT 1 FROM parked p WHERE p.sequence = e.sequence)"

_EVENTS = View(
    "v1_events",
    "The history itself: every event in order, with its CloudEvents attributes and its body.",
    (
        is_("sequence", "Its place in the history, from 1 without gaps."),
        is_("time_us", "When its source observed it, in microseconds UTC since 1970."),
        micros_at("time_at", "The same as text.", "e.time_us"),
        CLUSTER,
        is_("type", "What was published: `entity.participle`, such as `pod.observed`."),
        is_(
            "key", "Of which entity: a uid for pods and workloads, a name for nodes and namespaces."
        ),
        is_("id", "The event's identity: two events with one id are one event."),
        is_("source", "Who published it."),
        is_("version", "The version of the body's shape."),
        is_(
            "body",
            "The body, JSON as text; NULL where the event is parked, since it may be no text at all.",
            f"CASE WHEN {_READABLE} THEN CAST(e.body AS TEXT) END",
            f"CASE WHEN {_READABLE} THEN convert_from(e.body, 'UTF8') END",
        ),
        is_("raw", "The body's exact bytes.", "e.body"),
        is_("defect", "Why the envelope could not be read; empty for almost all."),
        hexadecimal("chain", "SHA-256 over all events up to this one, hexadecimal.", "e.chain"),
    ),
    "FROM events e",
)

_PARKED = View(
    "v1_parked",
    "Events that could not be read or folded and change no figure until they are driven again. Should be empty.",
    (
        is_("sequence", "Its place in the history.", "p.sequence"),
        is_("type", "What it claims to be.", "p.type"),
        is_("key", "Of which entity.", "p.key"),
        is_("reason", "Why it is parked.", "p.reason"),
        is_("cluster", "The cluster, as its source names it.", "e.cluster"),
        is_("id", "The event's identity.", "e.id"),
        micros_at("time_at", "When its source observed it.", "e.time_us"),
        is_("raw", "The body's exact bytes.", "e.body"),
    ),
    "FROM parked p JOIN events e ON e.sequence = p.sequence",
)

_EVIDENCE = View(
    "v1_evidence",
    "Up to when each cluster was observed, by kind of object. What is open is valued up to the greatest of a cluster's rows,"
    " those of `notebooks` left out; what came after is unknown.",
    (
        CLUSTER,
        is_("kind", "What was observed; `objects` are complete lists of other kinds."),
        is_("observed_s", "The newest observation.", "observed_us / 1000000"),
        micros_at("observed_at", "The same as text, to the microsecond.", "observed_us"),
        is_("sequence", "The event that said so."),
    ),
    "FROM evidence",
)

HISTORY = (_EVENTS, _PARKED, _EVIDENCE)
LEDGER = _LEDGER
