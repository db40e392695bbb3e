"""Quotas with other limits on the journals that were recorded: who would have been let in, refused, or have waited.

Every review is decided again by the rules that answer live, on the tree as it would be. What was admitted on record and is refused
is left out of the tree, with all that was said of it later. What was refused and is let in holds its charge for as long as the rule
says. What was given back on record is given back. Budgets burn, and queues release, as on record. Pure but for its own state.

- *later*: what is let in runs as long as its namesake did that was admitted later, which then is not asked for any more, else as
  long as the median of its quota's. What is refused is asked for again whenever something is given back; then it runs as long as
  it did.
- *median*, *longest*: as later, but all that is let in runs for the median, or as long as any in its quota did.
- *never*: what is let in ends at once, and what is refused is not asked for again.

Source: docs/lab.md; docs/quotas.md.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Iterable, Mapping

import msgspec

from bus.envelope import Event
from bus.errors import HistoryDivergedError
from bus.events.admissions import (
    AdmissionDecided,
    AdmissionReleased,
    QuotaDeclared,
    QuotaSpec,
    Release,
)
from projections.quota_trees import Tree, TreeOverlay
from projections.quota_trees.tree import Fact
from reactors.lab.outcome import Amount, amount
from reactors.lab.rules import RULES, Rule
from reactors.rederive.reviews import decided_again, has_basis, is_review

#: Quota to its keys and the limits that are tried.
Limits = Mapping[str, Mapping[str, int]]
#: A workload by what its user calls it: quota, kind, namespace, name.
Workload = tuple[str, str, str, str]
#: The first says what is likely.
QUOTA_RULES: tuple[Rule, ...] = (*RULES, "longest")
#: Most workloads of one quota that are asked for again when something is given back.
MOST_WAITING = 10


class Entry(msgspec.Struct, frozen=True):
    """An entry of a tree's journal, and where it stands."""

    event: Event
    fact: Fact


class Life(msgspec.Struct):
    """A workload on record: since when and until when its quota held something for it; 0 = to the end."""

    uid: str
    from_us: int
    until_us: int = 0


class Changed(msgspec.Struct):
    """A workload that was answered otherwise: ``let_in``, ``refused``, or ``waited`` where it was asked for again."""

    kind: str
    workload: Workload
    uid: str
    at_us: int
    waited_us: int = 0


class Held(msgspec.Struct, frozen=True):
    """A time in which something was held on record and not under trial (``is_saved``), or the other way round."""

    quota: str
    is_saved: bool
    cpu_milli: int
    gpu_milli: int
    from_us: int
    until_us: int


class TreePlayed(msgspec.Struct, frozen=True):
    """What one rule made of a tree's journal. ``answers``: by quota how many were admitted on record, and under trial."""

    rule: Rule
    changed: tuple[Changed, ...]
    held: tuple[Held, ...]
    answers: Mapping[str, tuple[int, int]]


class Lives:
    """The lives of all workloads of a journal, which the rules look up."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.of: dict[tuple[str, str], Life] = {}
        self._named: dict[Workload, list[Life]] = {}
        self._ended: dict[str, list[int]] = {}
        for entry in entries:
            fact, at_us = entry.fact, entry.event.time_us
            if isinstance(fact, AdmissionDecided) and fact.verdict != "refused":
                if (fact.quota, fact.uid) not in self.of:
                    life = self.of[fact.quota, fact.uid] = Life(fact.uid, at_us)
                    self._named.setdefault(_workload(fact), []).append(life)
            elif isinstance(fact, AdmissionReleased):
                for release in fact.releases:
                    found = self.of.get((release.quota, release.uid))
                    if found is not None and not release.charge and not found.until_us:
                        found.until_us = max(at_us, found.from_us)
                        spans = self._ended.setdefault(release.quota, [])
                        spans.append(found.until_us - found.from_us)
        for spans in self._ended.values():
            spans.sort()
        for lives in self._named.values():
            lives.sort(key=lambda one: one.from_us)

    def later(self, workload: Workload, at_us: int) -> Life | None:
        """The next life of a workload of this name."""
        lives = self._named.get(workload, [])
        place = bisect.bisect_left(lives, at_us, key=lambda one: one.from_us)
        return lives[place] if place < len(lives) else None

    def usual_us(self, quota: str, rule: Rule) -> int:
        """How long half of a quota's workloads ran at most, or all of them; 0 where none ended."""
        spans = self._ended.get(quota) or [0]
        return spans[-1 if rule == "longest" else len(spans) // 2]


class TreeTrial:
    """One tree under other limits, by one rule. ``first``: up to this event all is as on record."""

    def __init__(self, name: str, limits: Limits, rule: Rule, lives: Lives, first: int) -> None:
        self._tree = Tree(name)
        self._limits, self._rule, self._lives, self._first = limits, rule, lives, first
        self._is_tried = first == 0
        #: (quota, uid) of what is on record and not under trial.
        self._out: set[tuple[str, str]] = set()
        #: (quota, uid) of what ran earlier under trial.
        self._moved: set[tuple[str, str]] = set()
        #: Workloads that were let in; when each of them ends, with quota and uid.
        self._let_in: set[Workload] = set()
        self._ends: list[tuple[int, str, str, Workload]] = []
        #: By quota and uid: who was refused and asks again.
        self._waiting: dict[str, dict[str, tuple[Entry, Changed]]] = {}
        self._changed: list[Changed] = []
        self._held: list[Held] = []
        self._answers: dict[str, list[int]] = {}

    def take(self, entry: Entry) -> None:
        """The next entry of the journal."""
        event, fact = entry.event, entry.fact
        if not self._is_tried and event.sequence > self._first:
            self._begin(event)
        self._end_lives(event)
        if isinstance(fact, QuotaDeclared) and self._is_tried:
            self._apply(self._with_limits(fact), event)
            self._ask_again(fact.quota, event)
        elif isinstance(fact, AdmissionReleased) and self._is_tried:
            self._released(fact, event)
        elif isinstance(fact, AdmissionDecided) and self._is_tried:
            self._decided(entry, fact)
        else:
            self._apply(fact, event)

    def end(self, until_us: int) -> TreePlayed:
        """What was found, when all was taken."""
        held = [
            msgspec.structs.replace(
                one, until_us=max(min(one.until_us or until_us, until_us), one.from_us)
            )
            for one in self._held
        ]
        answers = {quota: (said, tried) for quota, (said, tried) in self._answers.items()}
        return TreePlayed(self._rule, tuple(self._changed), tuple(held), answers)

    # limits

    def _begin(self, event: Event) -> None:
        """From here on other limits hold."""
        self._is_tried = True
        for node in [one for one in self._tree.nodes.values() if one.observed is not None]:
            declared = QuotaDeclared(
                number=0, quota=node.name, uid=node.uid, kind=node.kind, parent=node.parent,
                stage="observed", verdict="admitted", reason="tried", spec=node.observed, settles=False,
            )  # fmt: skip
            if node.name in self._limits:
                self._apply(self._with_limits(declared), event)

    def _with_limits(self, fact: QuotaDeclared) -> QuotaDeclared:
        tried = self._limits.get(fact.quota)
        if tried is None or fact.spec is None:
            return fact
        spec: QuotaSpec = msgspec.structs.replace(fact.spec, hard={**fact.spec.hard, **tried})
        return msgspec.structs.replace(fact, spec=spec)

    # answers

    def _decided(self, entry: Entry, fact: AdmissionDecided) -> None:
        event, place = entry.event, (fact.quota, fact.uid)
        if not (is_review(fact) and has_basis(fact)):
            # It was there without having been asked for, or a queue released it.
            if place not in self._out:
                self._apply(fact, event)
            return
        is_create = fact.operation == "CREATE" and fact.child is None
        is_admitted = fact.verdict != "refused"
        answers = self._answers.setdefault(fact.quota, [0, 0])
        answers[0] += is_create and is_admitted
        if is_create and (_workload(fact) in self._let_in or place in self._moved):
            if is_admitted:
                # It runs already, or has run, and nobody asks for it twice.
                self._leave_out(fact)
            return
        if place in self._out:
            return
        again = self._again(fact, event.time_us)
        if again.verdict != "refused":
            answers[1] += is_create
            if is_create and not is_admitted:
                self._let(fact, again, event)
            else:
                self._apply(again, event)
        elif is_admitted and is_create:
            self._leave_out(fact)
            changed = self._change("refused", fact, event)
            if self._rule != "never":
                self._waiting.setdefault(fact.quota, {})[fact.uid] = (entry, changed)

    def _again(self, fact: AdmissionDecided, at_us: int) -> AdmissionDecided:
        found = decided_again(TreeOverlay(self._tree), fact, at_us)
        assert isinstance(found, AdmissionDecided)
        return found

    def _let(self, fact: AdmissionDecided, again: AdmissionDecided, event: Event) -> None:
        """Let in what was refused on record."""
        self._change("let_in", fact, event)
        if self._rule == "never":
            return
        life = self._lives.later(_workload(fact), event.time_us)
        if self._rule == "later" and life is not None:
            self._moved.add((fact.quota, life.uid))
            runs_us = life.until_us - life.from_us if life.until_us else 0
            self._run(fact, again, event, runs_us)
        else:
            # Of a quota where nothing ended yet nobody knows: it runs to the end.
            self._run(fact, again, event, self._lives.usual_us(fact.quota, self._rule))
        self._let_in.add(_workload(fact))

    def _run(
        self, fact: AdmissionDecided, again: AdmissionDecided, event: Event, runs_us: int
    ) -> None:
        """Charge what was admitted under trial, for so long; 0 = to the end."""
        self._apply(again, event)
        until_us = event.time_us + runs_us if runs_us else 0
        if until_us:
            heapq.heappush(self._ends, (until_us, fact.quota, fact.uid, _workload(fact)))
        self._hold(fact, event.time_us, until_us, is_saved=False)

    def _leave_out(self, fact: AdmissionDecided) -> None:
        """What was admitted on record is not there under trial."""
        self._out.add((fact.quota, fact.uid))
        life = self._lives.of[fact.quota, fact.uid]
        self._hold(fact, life.from_us, life.until_us, is_saved=True)

    def _change(self, kind: str, fact: AdmissionDecided, event: Event) -> Changed:
        changed = Changed(kind, _workload(fact), fact.uid, event.time_us)
        self._changed.append(changed)
        return changed

    def _hold(self, fact: AdmissionDecided, from_us: int, until_us: int, *, is_saved: bool) -> None:
        cpu_milli, gpu_milli = _amounts(fact.demand)
        self._held.append(Held(fact.quota, is_saved, cpu_milli, gpu_milli, from_us, until_us))

    # what is given back

    def _released(self, fact: AdmissionReleased, event: Event) -> None:
        left = []
        for one in fact.releases:
            node = self._tree.nodes.get(one.quota)
            grant = node.grants.get(one.uid) if node is not None else None
            if grant is None or (one.quota, one.uid) in self._out:
                continue
            # Under trial it may hold less than on record.
            charge = {key: min(n, grant.charge.get(key, 0)) for key, n in one.charge.items()}
            left.append(msgspec.structs.replace(one, charge={k: n for k, n in charge.items() if n}))
        if left:
            self._apply(msgspec.structs.replace(fact, releases=tuple(left)), event)
        for quota in sorted({one.quota for one in left}):
            self._ask_again(quota, event)

    def _end_lives(self, event: Event) -> None:
        while self._ends and self._ends[0][0] <= event.time_us:
            at_us, quota, uid, workload = heapq.heappop(self._ends)
            self._apply(
                AdmissionReleased(number=0, releases=(Release(quota, uid, "tried"),)), event
            )
            self._let_in.discard(workload)
            self._ask_again(quota, msgspec.structs.replace(event, time_us=at_us))

    def _ask_again(self, quota: str, event: Event) -> None:
        """Ask again for what was refused under trial in a quota, the oldest first: it has room only of its own."""
        waiting = self._waiting.get(quota, {})
        for uid, (entry, changed) in list(itertools.islice(waiting.items(), MOST_WAITING)):
            fact = entry.fact
            assert isinstance(fact, AdmissionDecided)
            again = self._again(fact, event.time_us)
            if again.verdict == "refused":
                continue
            del waiting[uid]
            changed.kind, changed.waited_us = "waited", event.time_us - changed.at_us
            self._answers[fact.quota][1] += 1
            life = self._lives.of[quota, uid]
            self._run(fact, again, event, life.until_us - life.from_us if life.until_us else 0)

    def _apply(self, fact: Fact, event: Event) -> None:
        fact = msgspec.structs.replace(fact, number=self._tree.number + 1)
        try:
            self._tree.apply(fact, event.sequence, event.time_us)
        except HistoryDivergedError:
            # Every reader passes over it.
            self._tree.skip(event.sequence)


def _workload(fact: AdmissionDecided) -> Workload:
    # What has no name yet is told apart by its controller, else by itself.
    return fact.quota, fact.kind, fact.namespace, fact.name or fact.owner or fact.uid


def _amounts(demand: Mapping[str, int]) -> tuple[int, int]:
    """Milli-cores and milli-GPUs of a demand: what it requests, else its limits."""
    cpu = demand.get("requests.cpu", demand.get("limits.cpu", 0))
    gpus: dict[str, int] = {}
    for prefix in ("limits.", "requests."):
        for key, number in demand.items():
            if key.startswith(prefix) and key.endswith("/gpu"):
                gpus[key.removeprefix(prefix)] = number
    return cpu, 1_000 * sum(gpus.values())


def played(
    journals: Mapping[str, list[Entry]], limits: Limits, first: int = 0
) -> dict[Rule, list[TreePlayed]]:
    """What each rule makes of all journals. An elastic tree divides what there is, and is as on record."""
    found: dict[Rule, list[TreePlayed]] = {rule: [] for rule in QUOTA_RULES}
    until_us = max((e.event.time_us for of in journals.values() for e in of), default=0)
    for name, entries in sorted(journals.items()):
        if name.startswith("elastic/"):
            continue
        lives = Lives(entries)
        for rule in QUOTA_RULES:
            trial = TreeTrial(name, limits, rule, lives, first)
            for entry in entries:
                trial.take(entry)
            found[rule].append(trial.end(until_us))
    return found


class QuotaOutcome(msgspec.Struct, frozen=True):
    """A quota under other limits; ``name`` "" = all of them. ``changed`` is by the first rule."""

    name: str
    recorded: int
    tried: int
    changed: tuple[Changed, ...]
    cpu_milli_s: Amount
    gpu_milli_s: Amount

    def count(self, kind: str) -> int:
        """How many workloads were answered otherwise in this way."""
        return sum(one.kind == kind for one in self.changed)


def outcomes(found: Mapping[Rule, list[TreePlayed]]) -> list[QuotaOutcome]:
    """Each quota that was asked for anything, by name, and last all of them."""
    likely = found[RULES[0]]
    names = sorted({name for one in likely for name in one.answers})
    return [_outcome(found, name) for name in names] + [_outcome(found, "")]


def _outcome(found: Mapping[Rule, list[TreePlayed]], name: str) -> QuotaOutcome:
    likely = found[RULES[0]]
    answers = [two for one in likely for quota, two in one.answers.items() if name in ("", quota)]
    changed = [c for one in likely for c in one.changed if name in ("", c.workload[0])]
    held = [
        [h for one in found[rule] for h in one.held if name in ("", h.quota)]
        for rule in QUOTA_RULES
    ]
    return QuotaOutcome(
        name,
        sum(said for said, _ in answers),
        sum(tried for _, tried in answers),
        tuple(sorted(changed, key=lambda one: (one.at_us, one.workload))),
        amount(held, lambda one: one.cpu_milli),
        amount(held, lambda one: one.gpu_milli),
    )
