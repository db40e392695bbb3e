"""Metrics of a running process: declared here as plain values, written for Prometheus by its own client library.

A metric is computed on request, from a state, so no registry counts beside the state. Times are counted in
microseconds and written in seconds. Label values come from users of the cluster (names of quotas): the library
escapes them, so a value can neither end its line nor begin another.

Source: Prometheus, "Exposition formats" (text format 0.0.4).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Literal

import msgspec

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Samples written at once, a few milliseconds' work.
PART = 500

Labels = Mapping[str, str]

#: Upper bounds of the buckets of a review's time, microseconds: 0.25 ms to 2.5 s.
REVIEW_BOUNDS_US = (
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
)  # fmt: skip


class Sample(msgspec.Struct, frozen=True):
    """One line: the suffix of the metric's name (``_bucket``, say), labels, and the written value."""

    value: int | str
    labels: Labels = {}
    suffix: str = ""


class Metric(msgspec.Struct, frozen=True):
    """One metric with all its samples. ``name`` and label names are ours, never a user's."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    samples: Iterable[Sample]


class Counted(msgspec.Struct, frozen=True):
    """The counts of a histogram: by bucket, and in all."""

    counts: tuple[int, ...]
    sum_us: int


class Histogram:
    """Counts durations by bucket."""

    def __init__(
        self, bounds_us: Sequence[int] = REVIEW_BOUNDS_US, counted: Counted | None = None
    ) -> None:
        self._bounds_us = tuple(bounds_us)
        self._counts = [0] * (len(bounds_us) + 1) if counted is None else list(counted.counts)
        self._sum_us = 0 if counted is None else counted.sum_us

    @property
    def counted(self) -> Counted:
        """All observations, as a start for the next histogram."""
        return Counted(tuple(self._counts), self._sum_us)

    def observe(self, us: int) -> None:
        """One more duration, ``us`` microseconds: it counts in the first bucket with a bound not below it."""
        self._counts[bisect_left(self._bounds_us, us)] += 1
        self._sum_us += us

    def samples(self) -> Iterator[Sample]:
        """Buckets, each with all below it, then sum and count."""
        total = 0
        bounds = [*map(seconds_text, self._bounds_us), "+Inf"]
        for bound, count in zip(bounds, self._counts, strict=True):
            total += count
            yield Sample(total, {"le": bound}, "_bucket")
        yield Sample(seconds_text(self._sum_us), {}, "_sum")
        yield Sample(total, {}, "_count")


def exposition(metrics: Iterable[Metric]) -> Iterator[str]:
    """The text format in parts of whole lines, so a long answer is never made at once."""
    # Most modules with metrics never write them, and a command's start waits for every import.
    from prometheus_client.exposition import generate_latest
    from prometheus_client.metrics_core import Metric as Family

    for metric in metrics:
        samples, is_first = iter(metric.samples), True
        while (some := tuple(islice(samples, PART))) or is_first:
            family = Family(metric.name.removesuffix("_total"), metric.meaning, metric.kind)
            for one in some:
                labels = {name: value.replace("\r", "") for name, value in one.labels.items()}
                family.add_sample(metric.name + one.suffix, labels, float(one.value))
            # The library writes a registry's metrics: here this family alone.
            text = generate_latest(SimpleNamespace(collect=partial(iter, (family,)))).decode()
            # The metric's help stands before its first sample and nowhere else.
            yield text if is_first else text.split("\n", 2)[2]
            is_first = False


def seconds_text(us: int) -> str:
    """Microseconds as seconds, exactly: ``0.00025``, ``2.5``."""
    whole, micros = divmod(us, 1_000_000)
    return f"{whole}.{micros:06d}".rstrip("0").rstrip(".")
