"""Metrics of culling: those of Kubeflow's notebook controller by their names, and the verdicts. Pure.

In Kubeflow, its own pair about culling never appears, and its ``notebook_running`` counts stopped ones and keeps the
last value of a deleted namespace (docs/culling.md). Here their values match their names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bus.clock import SECOND_US
from bus.metrics import Metric, Sample
from reactors.culling.decide import evaluated
from reactors.culling.policy import CullingPolicy
from reactors.culling.state import NAME, CullingState
from reactors.engine.replica import Replica


def figures(replica: Replica) -> Iterator[Metric]:
    """All of them, as of the newest tick."""
    view, current = replica.states[NAME], replica.policies.of(NAME)
    assert isinstance(view, CullingState)
    running = Counter(view.state.pods[uid].namespace for uid in view.notebooks)
    yield Metric(
        "notebook_running", "gauge", "Notebooks that run, by namespace.",
        [Sample(count, {"namespace": name}) for name, count in sorted(running.items())],
    )  # fmt: skip
    yield Metric(
        "notebook_culling_total", "counter", "How often a notebook was stopped by culling.",
        [
            Sample(count, {"namespace": namespace, "name": name})
            for (namespace, name), (count, _) in sorted(view.counts.items())
        ],
    )  # fmt: skip
    yield Metric(
        "last_notebook_culling_timestamp_seconds", "gauge", "When it was stopped last.",
        [
            Sample(at_us // SECOND_US, {"namespace": namespace, "name": name})
            for (namespace, name), (_, at_us) in sorted(view.counts.items())
        ],
    )  # fmt: skip
    if current is not None and isinstance(current.policy, CullingPolicy):
        verdicts = [
            evaluated(view, current.policy, uid, view.ticked_us).verdict for uid in view.notebooks
        ]
        states = Counter((one.decision, one.reason) for one in verdicts)
        yield Metric(
            "bursar_notebooks", "gauge", "Notebooks by the verdict at the newest tick, and why.",
            [
                Sample(count, {"verdict": verdict, "reason": reason})
                for (verdict, reason), count in sorted(states.items())
            ],
        )  # fmt: skip
