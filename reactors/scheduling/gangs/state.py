"""Gangs: pods placed together or not at all, with the needs and the progress of each gang. Pure but for its state.

A gang has a namespace and a name. A PodGroup states its needs, or else the annotations of its own pods. The terms of the first of
these pods count until the last one is gone, whatever later ones state. A gang may name others to start with; they count as its
group if all of them name the same: no gang waits for, or starts, an unwilling one.

The cluster's state determines the pods of a gang, and the ones on nodes. A snapshot adds the needs of light gangs, the gangs
complete once, and the pods after the loss of their node.

Source: koordinator-sh/koordinator, "Gang Scheduling"; Kubernetes, scheduling.k8s.io PodGroup; docs/scheduling.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache

import msgspec

from bus.clock import SECOND_US
from bus.events.constraints import GangTerms
from bus.events.pods import NATIVE, PLUGINS, SIGS, VOLCANO
from bus.sources.podgroups import LONGEST_WORD
from projections.cluster import Change, ClusterState, Pod
from projections.cluster.pod_terms import PodGroup
from reactors.scheduling.gangs.cycles import GangCycles
from reactors.scheduling.gangs.shape import WAIT_US, Gang, Needs, SavedGangs
from reactors.scheduling.shape import LONGEST_WAIT_US, holds

#: Most pods needed by a gang, or by a group of gangs; and most gangs of a group.
MOST_NEEDED = 5_000
MOST_GANGS = 16
#: Sources of the needs of a gang; the first one present counts.
_KINDS = (NATIVE, SIGS, PLUGINS, VOLCANO)

_DIGITS = re.compile(r"[0-9]{1,10}", re.ASCII)
_PART = re.compile(r"([0-9]{1,9})(?:\.([0-9]{0,9}))?(h|ms|m|s|us|µs|ns)", re.ASCII)
_UNITS = {
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
    "µs": 1,
    "ns": 0,
}


def needs_of(terms: GangTerms, usual_us: int = WAIT_US) -> Needs | None:
    """The needs of a light gang by the annotations of a pod; None if not stated."""
    least = _number(terms.least)
    if least is None:
        return None
    return _needs(least, terms.total, terms.mode, duration_us(terms.wait) or usual_us, terms.groups)


def needs_of_group(row: PodGroup) -> Needs | None:
    """The needs in a PodGroup; None if it cannot start."""
    if row.is_cut or (row.least is not None and row.least < 0):
        return None
    wait_us = (row.wait_seconds or 0) * SECOND_US
    found = _needs(row.least or 0, row.total, row.mode, max(wait_us, 0) or WAIT_US, row.groups)
    if row.least is None:
        found = msgspec.structs.replace(found, least=None, groups=())
    if row.topology or row.goes_whole:
        return msgspec.structs.replace(found, topology=row.topology, goes_whole=row.goes_whole)
    return found


@lru_cache(maxsize=1_000)
def _needs(least: int, total: str, mode: str, wait_us: int, groups: str) -> Needs:
    number = _number(total)
    whole = least if number is None or 0 < number < least else number
    return Needs(least, whole, mode != "NonStrict", min(wait_us, LONGEST_WAIT_US), _listed(groups))


def _number(text: str) -> int | None:
    return int(text) if _DIGITS.fullmatch(text) else None


def duration_us(text: str) -> int:
    """Microseconds of a duration in Go's form, ``1m30s``; 0 for an invalid one, or one not above 0."""
    text = text.removeprefix("+")
    parts = list(_PART.finditer(text))
    if len(text) > LONGEST_WORD or "".join(one.group() for one in parts) != text:
        return 0
    return sum(
        int(number) * _UNITS[unit] + int((digits or "0")[:6].ljust(6, "0")) * _UNITS[unit] // 10**6
        for number, digits, unit in (one.groups() for one in parts)
    )


def _listed(text: str) -> tuple[str, ...]:
    try:
        found = msgspec.json.decode(text, type=list[str]) if text else []
    except (msgspec.DecodeError, UnicodeError):
        return ()
    # One more than allowed is enough to refuse them.
    return tuple(dict.fromkeys(found))[: MOST_GANGS + 1]


class Naming:
    """The groups of gangs: for each gang the gangs named by it."""

    def __init__(self) -> None:
        #: By gang: the gangs naming it.
        self.by: dict[str, set[str]] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    def name(self, key: str, groups: tuple[str, ...]) -> None:
        """Set the group named by a gang, possibly with itself."""
        named = tuple(one for one in groups if one != key)
        if self._names.get(key, ()) == named:
            return
        for other in self._names.pop(key, ()):
            self.by[other].discard(key)
            if not self.by[other]:
                del self.by[other]
        for other in named:
            self.by.setdefault(other, set()).add(key)
        if named:
            self._names[key] = named


class Gangs:
    """The gangs of one cluster; ``is_ours`` tells whether a waiting pod is placed here."""

    def __init__(self, cluster: ClusterState, is_ours: Callable[[Pod], bool]) -> None:
        self._cluster = cluster
        self._is_ours = is_ours
        #: None without a plugin for counts.
        self.cycles: GangCycles | None = None
        self.all: dict[str, Gang] = {}
        #: The gang of each counted pod.
        self._of: dict[str, str] = {}
        #: Pods after the loss of their node before the bind: they do not count until they get another.
        self._lost: set[str] = set()
        self._naming = Naming()
        #: By existing gang: its needs, as known to the gangs naming it.
        self._known: dict[str, Needs | None] = {}

    def begin(self, saved: SavedGangs | None = None) -> None:
        """Read the existing objects, pods in the order of their times; and the state from a snapshot, or from another policy."""
        pods = sorted(self._cluster.pods.values(), key=lambda one: (one.started_us, one.uid))
        for pod in pods:
            self._saw(pod.uid, pod)
        if saved is not None:
            complete = set(saved.complete)
            for key, gang in self.all.items():
                gang.light = saved.light.get(key, gang.light)
                gang.is_complete = key in complete
            self._lost = self._of.keys() & saved.lost
            if self.cycles is not None:
                self.cycles.restore(saved.cycles)
        for key in list(self.all):
            self._weigh(key)

    def saved(self) -> SavedGangs:
        """The part of a snapshot for gangs."""
        light = {key: one.light for key, one in self.all.items() if one.light is not None}
        complete = sorted(key for key, one in self.all.items() if one.is_complete)
        cycles = self.cycles.saved() if self.cycles is not None else {}
        return SavedGangs(dict(sorted(light.items())), complete, sorted(self._lost), cycles)

    # folding

    def follow(self, changes: Iterable[Change]) -> set[str]:
        """Follow the cluster's changes; returns the pods allowed to be tried now and not before, or the reverse."""
        touched: dict[str, None] = {}
        for change in changes:
            for row in (change.before, change.after):
                if isinstance(row, PodGroup):
                    touched[f"{row.namespace}/{row.name}"] = None
            if isinstance(change.before, Pod) or isinstance(change.after, Pod):
                after = change.after if isinstance(change.after, Pod) else None
                touched.update(dict.fromkeys(self._saw(change.uid, after)))
        return {uid for key in touched for uid in self._weigh(key)}

    def placed(self, uid: str, *, waits: bool = False) -> None:
        """A pass gave a node to a pod."""
        gang = self.all.get(self._of.get(uid, ""))
        if gang is not None and uid not in gang.bound:
            self._lost.discard(uid)
            gang.assumed.add(uid)
            if waits:
                gang.waiting.add(uid)

    def released(self, uid: str) -> None:
        """A pod no longer waits for the others."""
        gang = self.all.get(self._of.get(uid, ""))
        if gang is not None:
            gang.waiting.discard(uid)

    def forget(self, uid: str, *, is_lost: bool = False) -> None:
        """A pod lost its node. ``is_lost``: it is still to be bound, but its node is gone."""
        gang = self.all.get(self._of.get(uid, ""))
        if gang is not None:
            gang.assumed.discard(uid)
            gang.waiting.discard(uid)
        if is_lost and gang is not None:
            self._lost.add(uid)
        else:
            self._lost.discard(uid)

    def is_lost(self, uid: str) -> bool:
        """Whether the node of a pod was lost before it was bound."""
        return uid in self._lost

    def _saw(self, uid: str, pod: Pod | None) -> Iterable[str]:
        """Set a pod's state, None = gone. Returns the gangs it leaves, joins or changes in their counts."""
        terms = pod.constraints.gang if pod is not None and pod.constraints is not None else None
        key, before = "", self._of.get(uid, "")
        if pod is not None and terms is not None and not pod.is_terminating:
            counts = pod.node or (not pod.is_ended and self._is_ours(pod))
            key = f"{pod.namespace}/{terms.name}" if counts else ""
        if not key and not before:
            return ()
        if before and before != key:
            self._leaves(uid, self.all[before])
        if key:
            assert pod is not None and terms is not None
            self._joins(pod, terms, key)
        return dict.fromkeys(filter(None, (before, key)))

    def _joins(self, pod: Pod, terms: GangTerms, key: str) -> None:
        gang = self.all.get(key)
        if gang is None:
            gang = self.all[key] = Gang(key)
        self._of[pod.uid] = key
        if pod.is_ended:
            self._ends(pod.uid, gang)
        else:
            gang.pods[pod.uid] = None
        if gang.light is None and terms.is_light and not terms.is_cut:
            gang.light = needs_of(terms)
        if not pod.is_ended and holds(pod):
            gang.bound.add(pod.uid)
            gang.assumed.discard(pod.uid)
            gang.waiting.discard(pod.uid)
            self._lost.discard(pod.uid)

    def _leaves(self, uid: str, gang: Gang) -> None:
        del self._of[uid]
        self._ends(uid, gang)
        gang.ended.discard(uid)
        if not (gang.pods or gang.ended):
            del self.all[gang.key]

    def _ends(self, uid: str, gang: Gang) -> None:
        """Drop a pod without need of a node. Its ended run counts while it exists: its replacement starts by itself."""
        self._lost.discard(uid)
        if gang.ends(uid) and self.cycles is not None:
            self.cycles.left(gang.key, uid, is_over=not gang.pods)

    def _weigh(self, key: str) -> Sequence[str]:
        """Check a changed gang and the gangs naming it. Returns the pods with another answer about their attempts."""
        gang = self.all.get(key)
        needs = self.needs(key) if gang is not None else None
        if gang is not None and needs is not None and needs.least is not None:
            gang.is_complete |= len(gang.bound) + len(gang.ended) >= needs.least
        groups = needs.groups if needs is not None else ()
        self._naming.name(key, groups)
        is_same = gang is not None and key in self._known and self._known[key] == needs
        self._known.pop(key, None)
        if gang is not None:
            self._known[key] = needs
        found: list[str] = []
        named_by = self._naming.by.get(key, set())
        # Only gangs also named by it read its number of pods.
        for other in (key, *sorted(named_by.intersection(groups) if is_same else named_by)):
            one = self.all.get(other)
            if one is not None and (reason := self._reason(one)) != one.reason:
                one.reason = reason
                found += one.pods
        return found

    # questions

    def of(self, uid: str) -> Gang | None:
        """The gang of a pod; None = it has none."""
        return self.all.get(self._of.get(uid, ""))

    def siblings(self, uid: str) -> Collection[str]:
        """The pods of a pod's gang, itself among them: they rest together when the first wait ends."""
        gang = self.of(uid)
        return gang.pods if gang is not None else (uid,)

    def together_with(self, uid: str) -> list[str]:
        """The pods of a pod's gang and of the gangs starting with it, itself among them."""
        gang = self.of(uid)
        found = (self.all.get(key) for key in self.group(gang.key)) if gang is not None else ()
        return [other for one in found if one is not None for other in one.pods]

    def needs(self, key: str) -> Needs | None:
        """The needs of a gang; None = unknown."""
        namespace, _, name = key.partition("/")
        for kind in _KINDS:
            row = self._cluster.pod_groups.get(self._cluster.named(kind, namespace, name))
            if row is not None and not row.is_copy:
                return needs_of_group(row)
        gang = self.all.get(key)
        return gang.light if gang is not None else None

    def group(self, key: str) -> Sequence[str]:
        """The gangs starting together with one, itself among them."""
        needs = self.needs(key)
        named = needs.groups if needs is not None else ()
        return sorted({key, *named}) if named else (key,)

    def is_strict(self, key: str) -> bool:
        """Whether the pods of a gang start in one pass or not at all; a gang complete once is strict no more."""
        gang, needs = self.all.get(key), self.needs(key)
        is_open = gang is not None and not gang.is_complete
        return is_open and needs is not None and needs.least is not None and needs.is_strict

    def started_with(self, uid: str) -> str:
        """The first of the gangs starting with a pod's strict gang in one pass; "" = the pod starts by itself."""
        gang = self.of(uid) if self.cycles is None else None
        keys = self.group(gang.key) if gang is not None and not gang.is_complete else ()
        return keys[0] if any(map(self.is_strict, keys)) else ""

    def lacking(self, key: str) -> int:
        """The number of further pods needed on nodes by a gang."""
        gang, needs = self.all.get(key), self.needs(key)
        if gang is None or needs is None or gang.is_complete:
            return 0
        return max(0, (needs.least or 0) - len(gang.bound) - len(gang.assumed))

    def missing(self, keys: Iterable[str], placed: Collection[str] = ()) -> str:
        """The reason if gangs have too few placed pods, ``placed`` included; "" = they have enough."""
        more: dict[str, int] = {}
        for uid in placed:
            more[self._of.get(uid, "")] = more.get(self._of.get(uid, ""), 0) + 1
        for key in keys:
            gang, needs = self.all.get(key), self.needs(key)
            if gang is None or needs is None:
                return f"gang {key} is not known"
            have = len(gang.bound) + len(gang.assumed) + more.get(key, 0)
            if not gang.is_complete and have < (needs.least or 0):
                return f"not all of the {needs.least} pods that gang {key} needs find a node"
        return ""

    def waiting(self, keys: Iterable[str]) -> list[str]:
        """The pods of gangs waiting for the others, in an order of their own."""
        found = (self.all.get(key) for key in keys)
        return [uid for gang in found if gang is not None for uid in sorted(gang.waiting)]

    def _reason(self, gang: Gang) -> str:
        needs = self.needs(gang.key)
        if needs is None:
            return f"gang {gang.key} does not say how many pods it needs, or has no PodGroup"
        if needs.least is None or gang.is_complete:
            return ""
        if len(needs.groups) > MOST_GANGS:
            return f"gang {gang.key} names more than {MOST_GANGS} gangs"
        together, whole, waiting = frozenset(needs.groups or (gang.key,)), 0, 0
        if gang.key not in together:
            return f"gang {gang.key} is not in the group that it names"
        for key in sorted(together):
            other, wanted = self.all.get(key), self.needs(key)
            if other is None or wanted is None or wanted.least is None:
                return f"gang {key} is not there"
            if frozenset(wanted.groups or (key,)) != together:
                return f"gang {key} does not name the same group as gang {gang.key}"
            whole += wanted.least
            if whole > MOST_NEEDED:
                return f"gang {key} needs {wanted.least} pods; at most {MOST_NEEDED} start together"
            if not other.is_complete and len(other.pods) < wanted.least:
                return f"gang {key} needs {wanted.least} pods, and fewer are there"
            waiting += 0 if other.is_complete else len(other.pods) - len(other.bound)
        if waiting > MOST_NEEDED and any(map(self.is_strict, together)):
            many = f"gang {gang.key} has too many pods that wait"
            return f"{many}; at most {MOST_NEEDED} start together"
        return ""
