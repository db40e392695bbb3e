"""Comparison of a policy under trial with the record, generic over the decision: changes, groups and saved hours. Pure.

Source: docs/lab.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from bus.clock import SECOND_US
from bus.events.decisions import Decision
from reactors.lab.rules import Rule

#: Two decisions within this time are the same: an effect takes until the next tick.
SAME_US = 20 * SECOND_US
By = Literal["namespace", "team"]
#: Least, likely and most seconds.
Seconds = tuple[int, int, int]

D = TypeVar("D")
S = TypeVar("S")


class Played(msgspec.Struct, Generic[D, S], frozen=True):
    """Findings of one rule: decisions on record, decisions of the trial, and the times that differ."""

    recorded: tuple[Decision, ...]
    decided: tuple[D, ...]
    spans: tuple[S, ...]
    #: Team of each named pod, by uid.
    teams: Mapping[str, str]
    rule: Rule = "later"


class Change(msgspec.Struct, Generic[D], frozen=True):
    """A decision on record, under trial, or both. Times in microseconds UTC; None = absent there."""

    kind: str
    decision: D
    namespace: str
    team: str
    recorded_us: int | None
    tried_us: int | None


class Amount(msgspec.Struct, frozen=True):
    """Savings of a trial; below 0 = it costs. ``likely`` is by the first rule, ``low`` and ``high`` by all of them."""

    low: int = 0
    likely: int = 0
    high: int = 0


class Saved(msgspec.Struct, frozen=True):
    """Seconds saved by a trial on a pod or a quota. ``name``: its group."""

    name: str
    cpu_milli: int
    gpu_milli: int
    seconds: Seconds


class Differs(Protocol):
    """A time on record and not under trial (``is_saved``), or the other way round."""

    is_saved: bool
    cpu_milli: int
    gpu_milli: int
    from_us: int
    until_us: int


C = TypeVar("C")


class Group(msgspec.Struct, Generic[C], frozen=True):
    """Findings of one group; ``name`` "" = all. ``recorded``, ``tried``: decisions on record and under trial."""

    name: str
    changes: Sequence[C]
    kinds: Mapping[str, int]
    recorded: int
    tried: int
    added: int
    removed: int
    moved: int
    #: Seconds, milli-core-seconds and milli-GPU-seconds.
    saved_s: Amount
    cpu_milli_s: Amount
    gpu_milli_s: Amount


G = TypeVar("G", bound=Group[Any])


class Comparison(msgspec.Struct, Generic[C, G], frozen=True):
    """A policy under trial. Changes in order; groups by name; ``total`` of all of them.

    Of placements, ``node_s``: node-seconds on record with at least one pod not of a DaemonSet. ``node_less_s``:
    node-seconds saved under trial.
    """

    changes: tuple[C, ...]
    groups: tuple[G, ...]
    total: G
    node_s: int = 0
    node_less_s: Amount = Amount()


def compare(
    changes: Iterable[C], saved: Sequence[Sequence[Saved]], by: str, make: type[G],
    counts: Callable[[C], bool] = bool, answers: Mapping[str, tuple[int, int]] | None = None,
) -> Comparison[C, G]:  # fmt: skip
    """Changes in groups, with the seconds saved under each rule; the likely rule is the first.

    ``counts``: whether a change is counted. ``answers``: of each group, and of all, the numbers on record and under trial.
    """
    changes = tuple(changes)

    def group(name: str, of: Sequence[C], saved: Sequence[Sequence[Saved]]) -> G:
        counted: Any = [one for one in of if counts(one)]
        kinds = Counter(one.kind for one in counted)
        recorded, tried = answers[name] if answers is not None else (
            sum(one.recorded_us is not None for one in counted), sum(one.tried_us is not None for one in counted)
        )  # fmt: skip
        weights = (lambda one: 1), (lambda one: one.cpu_milli), (lambda one: one.gpu_milli)
        return make(
            name, counted, dict(kinds), recorded, tried, kinds["added"], kinds["removed"], kinds["moved"],
            *(interval([_sum(of_rule, weight) for of_rule in saved]) for weight in weights),
        )  # fmt: skip

    changed = _by_name(changes, by)
    rules = [_by_name(of_rule, "name") for of_rule in saved]
    names = sorted(changed if answers is None else answers.keys() - {""})
    groups = [
        group(name, changed.get(name, []), [one.get(name, []) for one in rules]) for name in names
    ]
    return Comparison(changes, tuple(groups), group("", changes, saved))


def _by_name(found: Iterable[S], by: str) -> dict[str, list[S]]:
    named: dict[str, list[S]] = {}
    for one in found:
        named.setdefault(getattr(one, by), []).append(one)
    return named


def _sum(saved: Iterable[Saved], weight: Callable[[Saved], int]) -> Seconds:
    low = likely = high = 0
    for one in saved:
        least, length, most = one.seconds
        by = weight(one)
        low, likely, high = low + least * by, likely + length * by, high + most * by
    return low, likely, high


def interval(found: Iterable[Seconds]) -> Amount:
    """The interval over all rules."""
    lows, likely, highs = zip(*found, strict=True)
    return Amount(min(lows), likely[0], max(highs))


def around(seconds: int, unsure_s: int) -> Seconds:
    """A number of seconds with its uncertainty. 0 is sure."""
    unsure_s = unsure_s if seconds else 0
    return seconds - unsure_s, seconds, seconds + unsure_s


def saved(span: Differs, by: str, unsure_s: int = 0) -> Saved:
    """Seconds of a span. A span without length has the same end on record and under trial, and is sure."""
    seconds = span.until_us // SECOND_US - span.from_us // SECOND_US
    found = around(seconds if span.is_saved else -seconds, unsure_s)
    return Saved(getattr(span, by), span.cpu_milli, span.gpu_milli, found)


K = TypeVar("K", bound=Change[Decision])


def decision_changes(
    recorded: Iterable[Decision], decided: Iterable[Decision], subject: Callable[[Decision], Any],
    make: Callable[[str, Decision, int | None, int | None], K],
    is_same: Callable[[Decision, Decision], bool] = lambda one, other: True,
) -> list[K]:  # fmt: skip
    """Decisions on record paired with those of the trial on the same subject, by time."""
    left: dict[Any, list[Decision]] = {}
    for one in recorded:
        left.setdefault(subject(one), []).append(one)
    found = []
    for one in decided:
        mine = left.get(subject(one), [])
        twin = next((other for other in mine if is_same(one, other)), None)
        if twin is None:
            found.append(make("added", one, None, one.at_us))
            continue
        mine.remove(twin)
        kind = "same" if abs(twin.at_us - one.at_us) <= SAME_US else "moved"
        found.append(make(kind, one, twin.at_us, one.at_us))
    found += [make("removed", one, one.at_us, None) for mine in left.values() for one in mine]
    found.sort(key=lambda one: (one.tried_us or one.recorded_us or 0, subject(one.decision)))
    return found


def front(costs: Sequence[tuple[int, int]]) -> set[int]:
    """Indexes of the policies beaten by no other. ``costs``: the savings and the false culls of each."""
    return {
        place
        for place, (saved, hit) in enumerate(costs)
        if not any(s >= saved and h <= hit and (s, h) != (saved, hit) for s, h in costs)
    }
