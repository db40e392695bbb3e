"""Figures of a running process, as Prometheus reads them. Pure but for the counts of a histogram.

Values are exact integers; times are counted in microseconds and written as seconds with all their digits. Label values come
from users of the cluster (names of quotas), so they are escaped: none can end its line or begin another.

Source: Prometheus, "Exposition formats" (text format 0.0.4).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]

#: Upper bounds of the buckets of a review's time, microseconds: 0.25 ms to 2.5 s.
REVIEW_BOUNDS_US = (
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
)  # fmt: skip


class Sample(msgspec.Struct, frozen=True):
    """One line: what follows the metric's name (``_bucket``, say), labels, and the value as it is written."""

    value: int | str
    labels: Labels = {}
    suffix: str = ""


class Metric(msgspec.Struct, frozen=True):
    """One metric with all its samples. ``name`` and label names are ours, never a user's."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    samples: Iterable[Sample]


class Histogram:
    """How often something took how long."""

    def __init__(self, bounds_us: Sequence[int] = REVIEW_BOUNDS_US) -> None:
        self._bounds_us = tuple(bounds_us)
        self._counts = [0] * (len(bounds_us) + 1)
        self._sum_us = 0

    def observe(self, us: int) -> None:
        """One more, that took ``us`` microseconds: it counts in the first bucket whose bound is not below it."""
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


def lines(metrics: Iterable[Metric]) -> Iterator[str]:
    """The text format, line by line, so that a long answer need not be made at once."""
    for metric in metrics:
        yield f"# HELP {metric.name} {_escaped(metric.meaning)}\n"
        yield f"# TYPE {metric.name} {metric.kind}\n"
        for sample in metric.samples:
            yield f"{metric.name}{sample.suffix}{_labels(sample.labels)} {sample.value}\n"


def seconds_text(us: int) -> str:
    """Microseconds as seconds, exactly: ``0.00025``, ``2.5``."""
    whole, micros = divmod(us, 1_000_000)
    return f"{whole}.{micros:06d}".rstrip("0").rstrip(".")


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_quoted(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    # A carriage return ends no line in this format, but does for some readers.
    return _escaped(text).replace('"', r"\"").replace("\r", "")
