"""Metrics of the machine and of its reactors. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bus.metrics import Metric, Sample
from reactors.engine.replica import Replica


def figures(replica: Replica) -> Iterator[Metric]:
    """All metrics, as of the newest folded event."""
    for reactor in replica.reactors.values():
        yield from reactor.metrics(replica)
    withheld = Counter(replica.withheld.values())
    yield Metric(
        "bursar_decisions_withheld", "gauge", "Decisions that a limit held at the newest tick.",
        [Sample(count, {"reason": reason}) for reason, count in sorted(withheld.items())],
    )  # fmt: skip
    yield Metric(
        "bursar_effects_outstanding", "gauge", "Decisions that are not done yet.",
        [Sample(len(replica.effects.outstanding))],
    )  # fmt: skip
    yield Metric(
        "bursar_reactors_paused", "gauge", "1 while all reactors are paused.",
        [Sample(int(replica.policies.is_paused))],
    )  # fmt: skip
