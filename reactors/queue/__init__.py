"""Waiting instead of being refused: held workloads, their order, and their release."""

from reactors.queue.decide import decide_releases
from reactors.queue.shape import Running, Waiting, ordered

__all__ = ["Running", "Waiting", "decide_releases", "ordered"]
