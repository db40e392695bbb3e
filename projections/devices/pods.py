"""Pods and complete lists in the view of devices. :mod:`projections.pod_runs` and :mod:`projections.lists` implement it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from projections.devices.held import PodCards
from projections.engine.changes import Changes
from projections.engine.contract import Key


class CardPod(PodCards, Protocol):
    """A pod as observed."""

    @property
    def uid(self) -> str:
        """Its uid."""

    @property
    def cluster(self) -> str:
        """Its cluster."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def claims(self) -> tuple[str, ...]:
        """Names of its claims."""

    @property
    def claimed(self) -> tuple[str, ...]:
        """Resources backed by a claim."""


class CardSegment(Protocol):
    """A time with an unchanged charge."""

    @property
    def start_s(self) -> int:
        """Its first second."""

    @property
    def end_s(self) -> int | None:
        """Its end; None while it is open."""

    @property
    def gpu_milli(self) -> int:
        """Milli-cards."""

    @property
    def team(self) -> str:
        """Its team."""

    @property
    def node(self) -> str:
        """Its node."""

    @property
    def model(self) -> str | None:
        """The GPU model of the node."""


class CardRun(Protocol):
    """A run: a pod's time on a node."""

    @property
    def start_s(self) -> int | None:
        """Its first second; None = never bound."""

    @property
    def end_s(self) -> int | None:
        """Its end; None while it is open."""

    @property
    def unknown_s(self) -> int:
        """Unknown seconds after its end."""

    @property
    def segments(self) -> Sequence[CardSegment]:
        """Its segments, in order."""


class PodRow(Protocol):
    """A pod with its run, and the last event with a change of its segments."""

    @property
    def pod(self) -> CardPod:
        """The pod."""

    @property
    def run(self) -> CardRun:
        """The run."""

    @property
    def run_sequence(self) -> int:
        """The event."""


class Pods(Protocol):
    """The pods in memory."""

    def get(self, uid: str, /) -> PodRow | None:
        """The pod, if it is in memory."""

    def load(self, uids: Iterable[str], /) -> None:
        """Bring the stored ones of ``uids`` into memory."""


class PodSurroundings(Protocol):
    """Timelines of namespaces and nodes around pods."""

    def owners(self, key: Key, /) -> list[tuple[int, Any]]:
        """Owners of a namespace: its team first."""

    def models(self, key: Key, /) -> list[tuple[int, str | None]]:
        """The GPU model of a node."""

    def sharing(self, key: Key, /) -> list[tuple[int, str]]:
        """A node's report about shared cards."""


class ListPart(Protocol):
    """One part of a complete list: every object of [first, until); ``until`` "" is no upper end."""

    @property
    def cluster(self) -> str:
        """Its cluster."""

    @property
    def first(self) -> str:
        """The first uid."""

    @property
    def until(self) -> str:
        """The uid behind it."""

    def covers(self, uid: str, /) -> bool:
        """Whether the part speaks of this uid."""


class ObjectLists(Protocol):
    """The complete lists of one kind."""

    def open(self) -> None:
        """Take in the newest lists."""

    def add(self, part: Any, /) -> bool | None:
        """Whether older answers may change with ``part``; None for a part without news."""

    def may_change(self, row: Any, part: Any, /) -> bool:
        """Whether ``part``, the newest, may change the evidence of lists about an object."""

    def absence(self, row: Any, /) -> Any:
        """``seen_us`` and ``missed_us`` of an object."""

    def changes(self) -> Changes:
        """Rows of this batch. The next batch begins."""

    def settle(self) -> None:
        """Drop stored parts."""
