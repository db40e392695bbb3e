"""Runs the plugins of a profile for one pod: finds the fitting nodes, and the best one. Pure but for its cache.

Answers of local plugins for equal pods are cached, and only rows changed since are evaluated again.

Source: Kubernetes, "Scheduling Framework"; docs/scheduling.md.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext

import msgspec
import numpy as np

from bus.errors import PermanentError
from bus.events.constraints import HeldCpus
from projections.cluster import Pod
from reactors.scheduling.columns.table import ALL, Ints, Rows
from reactors.scheduling.framework.context import PluginContext
from reactors.scheduling.framework.contract import (
    HIGHEST,
    LOWEST,
    Annotates,
    CardChooser,
    Code,
    Cpus,
    Cycle,
    Helped,
    Keys,
    Learns,
    Normalize,
    Permit,
    PostFilter,
    Preemption,
    PreEnqueue,
    PreScore,
    QueueSort,
    ReadsReservations,
    Reserve,
    Score,
    Spares,
    Sparing,
    Together,
    extends,
)
from reactors.scheduling.framework.filtering import Filtering
from reactors.scheduling.framework.profiles import Profile
from reactors.scheduling.framework.refusals import RefusalCodes
from reactors.scheduling.framework.seeds import seed
from reactors.scheduling.queueing.hints import Hint
from reactors.scheduling.queueing.messages import IN_SYSTEM, SYSTEM_NAMESPACES
from reactors.scheduling.shape import LONGEST_WAIT_US

_encode = msgspec.json.Encoder(order="sorted").encode

#: Distinct pods with cached filters and scores: as many as make so many rows, and at least a few.
KEPT_ROWS = 1_000_000
LEAST_KEPT = 16
#: A search for victims sparing only equally important pods.
NOBODY = Sparing()


class ScoreRangeError(PermanentError):
    """A plugin scored a node outside of 0 to 100."""


class ProfileError(PermanentError):
    """A profile has exactly one plugin that sorts the queue."""


class Choice(msgspec.Struct, frozen=True):
    """The outcome of a cycle. ``row`` -1 = no node fits."""

    row: int
    #: Rows of the fitting nodes, ascending, and their sums.
    rows: Ints
    totals: Ints
    #: By plugin: weighted scores of ``rows``. Empty without a choice.
    scores: dict[str, Ints]
    #: The reason of a refusal before any node was evaluated.
    reason: str = ""
    #: By plugin and reason: nodes refused by this plugin first; local plugins come before the others.
    refused: dict[str, dict[str, int]] = {}


class _Kept(msgspec.Struct):
    """The answers of local plugins for one kind of pod at one version of the columns."""

    layout: int
    version: int
    #: The code of each node's first refusal and its reasons; 0 = it fits.
    first: Ints
    scores: dict[str, Ints]


class Framework:
    """The plugins of one profile, and the state read by them."""

    def __init__(self, profile: Profile, context: PluginContext) -> None:
        self.profile = profile
        plugins = [one.plugin for one in profile.plugins]
        self.context, self.columns = context, context.columns
        self.filtering = Filtering(plugins, context.columns)
        self._weights = {one.plugin.name: one.weight for one in profile.plugins}
        self._keys = [one for one in plugins if extends(one, Keys)]
        self._pre_enqueues = [one for one in plugins if extends(one, PreEnqueue)]
        sorts = [one for one in plugins if extends(one, QueueSort)]
        if len(sorts) != 1:
            raise ProfileError(profile=profile.name, sorts=len(sorts))
        self.order = sorts[0].sort_key
        #: Whether a plugin uses the arrived pods.
        self.learns = any(extends(one, Learns) and one.learns for one in plugins)
        self._reserves = [one for one in plugins if extends(one, Reserve)]
        self._permits = [one for one in plugins if extends(one, Permit)]
        self._togethers = [one for one in plugins if extends(one, Together)]
        self._post_filters = [one for one in plugins if extends(one, PostFilter)]
        self._spares = [one for one in plugins if extends(one, Spares)]
        #: Whether a plugin uses reservations.
        self.reads_reservations = any(extends(one, ReadsReservations) for one in plugins)
        # A score without weight is not computed.
        self._scorers = [one for one in plugins if extends(one, Score) and self._weights[one.name]]
        self._annotates = [one for one in plugins if extends(one, Annotates)]
        self._cards = [one for one in plugins if extends(one, CardChooser)]
        self._cpus = [one for one in plugins if extends(one, Cpus)]
        self._pre_scores = {one.name: one for one in plugins if extends(one, PreScore)}
        self._normalizes = {one.name: one for one in plugins if extends(one, Normalize)}
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._codes = RefusalCodes()

    def pre_enqueue(self, pod: Pod) -> str:
        """The reason why a pod may not wait for a node; "" = it may. The first reason counts."""
        if pod.namespace in SYSTEM_NAMESPACES and _binds(self.profile, self.context, pod):
            return IN_SYSTEM
        return next(
            (why for one in self._pre_enqueues if (why := one.pre_enqueue(pod, self.context))), ""
        )

    def helped_by(self, refusing: Collection[str]) -> frozenset[Hint]:
        """The changes possibly helping a pod refused by these plugins."""
        found: set[Hint] = set()
        for one in self.filtering.filters:
            if one.name in refusing:
                found.update(one.helped_by if extends(one, Helped) else Hint)
        # A pod without any refusal had no node.
        return frozenset(found or Hint)

    def prepare(self, cycle: Cycle) -> None:
        """Let Reserve plugins prepare a pod placed before, as at the choice of its node."""
        if self._reserves:
            self.filtering.pre_filter(cycle)

    def reserve(self, cycle: Cycle, row: int) -> str:
        """Every plugin reserves, in order; the first failure ends it, with its reason."""
        return next((why for one in self._reserves if (why := one.reserve(cycle, row))), "")

    def unreserve(self, cycle: Cycle) -> None:
        """Every plugin unreserves, the last one first."""
        for one in reversed(self._reserves):
            one.unreserve(cycle)

    def permit(self, cycle: Cycle, row: int) -> tuple[str, dict[str, int]]:
        """(the reason of a refusal of the pod, by plugin the length of its wait). A refusal ends it, and comes before waits."""
        waits: dict[str, int] = {}
        for one in self._permits:
            found = one.permit(cycle, row)
            if found.code is Code.WAIT:
                waits[one.name] = min(found.timeout_us, LONGEST_WAIT_US)
            elif found.code is not Code.SUCCESS and found.code is not Code.SKIP:
                return found.reason or found.code.value, {}
        return "", waits

    def permits(self, cycle: Cycle) -> list[tuple[str, str]]:
        """(pod, plugin), each a wait no longer needed now that the pod of this cycle may be bound."""
        return [(uid, one.name) for one in self._permits for uid in one.permits(cycle)]

    def forbids(self, cycle: Cycle) -> list[str]:
        """The pods to stop waiting, as the pod of this cycle has no node."""
        return [uid for one in self._permits for uid in one.forbids(cycle)]

    def together(self, pod: Pod) -> tuple[Together, Sequence[str]] | None:
        """The first plugin placing a pod together with others, and its names for them; None = by itself."""
        for one in self._togethers:
            names = one.together(pod, self.context)
            if names:
                return one, names
        return None

    def cards(self, cycle: Cycle, row: int) -> tuple[int, ...]:
        """The cards of a pod on its node, by the first plugin with an answer."""
        with self._lifted(cycle, row):
            return next((found for one in self._cards if (found := one.cards(cycle, row))), ())

    def refuses(self, cycle: Cycle, row: int) -> str:
        """The reason why a node, with its usable reservations, does not take a pod any more; "" = it does."""
        with self._lifted(cycle, row):
            return self.filtering.refuses(cycle, row)

    def _lifted(self, cycle: Cycle, row: int = -1) -> AbstractContextManager[None]:
        own = self.context.reservations
        if own is None or not self.reads_reservations:
            return nullcontext()
        return own.known.lifted(cycle.pod, self.columns.names[row] if row >= 0 else "")

    def cpus(self, cycle: Cycle, row: int) -> HeldCpus | None:
        """The CPUs of a pod on its node, by the first plugin with an answer."""
        with self._lifted(cycle, row):
            found = (one.cpus(cycle, row) for one in self._cpus)
            return next((one for one in found if one is not None), None)

    def annotations(self, cycle: Cycle, row: int, cards: Sequence[int]) -> dict[str, str]:
        """The annotations written on a pod in its binding."""
        several = (one.annotations(cycle, row, cards) for one in self._annotates)
        return {name: text for found in several for name, text in found.items()}

    def choose(self, cycle: Cycle, sequence: int) -> Choice:
        """The best node for a pod; of several equal ones one by a seed of the pod's uid and ``sequence``."""
        with self._lifted(cycle):
            return self._chosen(cycle, sequence)

    def _chosen(self, cycle: Cycle, sequence: int) -> Choice:
        skipped, allowed, reason = self.filtering.pre_filter(cycle)
        if reason:
            return _nothing(reason)
        kept = self._known(cycle, skipped)
        first = kept.first
        if allowed is not None and (left_out := self.filtering.left_out(cycle)) is not None:
            first = self._codes.coded(np.zeros_like(first), left_out[0], [left_out[1]])
            first = np.where(first > 0, first, kept.first)
        rows = (first == 0).nonzero()[0]
        for plugin in self.filtering.filters:
            if rows.size and not plugin.is_local and plugin.name not in skipped:
                refused = plugin.filter(cycle, rows)
                if refused:
                    codes = self._codes.coded(np.zeros(rows.size, np.int64), plugin.name, refused)
                    first = first.copy() if first is kept.first else first
                    first[rows] = codes
                    rows = rows[codes == 0]
        for at, name, refused in self.filtering.held(cycle, rows):
            first = first.copy() if first is kept.first else first
            first[rows[at]] = self._codes.coded(np.zeros(1, np.int64), name, refused)[0]
        rows = rows[first[rows] == 0]
        counts = self._codes.counted(first)
        own = self.columns.nominated.get(cycle.pod.uid)
        if own is not None and rows.size:
            # Room made by evictions is taken, also if another node fits by now.
            there = rows[rows == self.columns.row_of.get(own.node, -1)]
            rows = there if there.size else rows
        if not rows.size:
            return _nothing(refused=counts)
        if rows.size == 1:
            return Choice(int(rows[0]), rows, np.zeros(1, np.int64), {}, "", counts)
        scores = self._scores(cycle, rows, kept)
        totals = np.zeros(rows.size, np.int64)
        for found in scores.values():
            totals += found
        best = (totals == totals.max()).nonzero()[0]
        at = 0 if self.profile.takes_first else seed(cycle.pod.uid, sequence) % best.size
        row = rows[best[at]]
        return Choice(int(row), rows, totals, scores, "", counts)

    def _known(self, cycle: Cycle, skipped: set[str]) -> _Kept:
        columns, key = self.columns, self._key(cycle)
        kept = self._kept.get(key)
        rows: Rows
        if kept is None or kept.layout != columns.layout:
            count = len(columns.nodes)
            names = [one.name for one in self._scorers if one.is_local]
            empty = {name: np.zeros(count, np.int64) for name in names}
            kept = self._kept[key] = _Kept(columns.layout, -1, np.zeros(count, np.int64), empty)
            rows = ALL
            if len(self._kept) > max(LEAST_KEPT, KEPT_ROWS // max(1, count)):
                self._kept.popitem(last=False)
        else:
            rows = np.flatnonzero(columns.changed_at > kept.version)
            self._kept.move_to_end(key)
            if not rows.size:
                return kept
        size = len(columns.nodes) if isinstance(rows, slice) else rows.size
        first: Ints = np.zeros(size, np.int64)
        for plugin in self.filtering.filters:
            if plugin.is_local and plugin.name not in skipped:
                self._codes.coded(first, plugin.name, plugin.filter(cycle, rows))
        kept.first[rows] = first
        fits = first == 0
        rows = np.flatnonzero(fits) if isinstance(rows, slice) else rows[fits]
        for scorer in self._scorers:
            if scorer.is_local and rows.size:
                scores = kept.scores[scorer.name][rows] = scorer.score(cycle, rows)
                if scorer.name not in self._normalizes:
                    _check_range(scorer.name, scores)
        kept.version = columns.version
        return kept

    def kind(self, cycle: Cycle) -> Hashable:
        """The input of all filters about a pod: equal kinds are refused by the same nodes."""
        return (*self.likeness(cycle), tuple(sorted(cycle.pod.labels.items())))

    def likeness(self, cycle: Cycle) -> tuple[Hashable, ...]:
        """The same without labels, as each pod of a job may have its own."""
        return (cycle.pod.priority, cycle.pod.namespace, self._key(cycle))

    def _key(self, cycle: Cycle) -> Hashable:
        pod = cycle.pod
        demand = tuple(sorted(pod.demand.items()))
        terms = _terms(pod)
        return (demand, terms, pod.node, pod.unrequested, *(one.key(cycle) for one in self._keys))

    def _scores(self, cycle: Cycle, rows: Ints, kept: _Kept) -> dict[str, Ints]:
        """Weighted scores of the fitting nodes, by plugin."""
        found, before = {}, dict(cycle.data)
        for one in self._scorers:
            pre_score = self._pre_scores.get(one.name)
            if pre_score is not None:
                status = pre_score.pre_score(cycle, rows)
                if status is not None and status.code is Code.SKIP:
                    continue
            scores = kept.scores[one.name][rows] if one.is_local else one.score(cycle, rows)
            normalize = self._normalizes.get(one.name)
            if normalize is not None:
                scores = normalize.normalize(cycle, scores)
            if normalize is not None or not one.is_local:
                _check_range(one.name, scores)
            found[one.name] = scores * self._weights[one.name]
        # Scores' notes have a number for each node: an assumed pod does not keep them.
        cycle.data = before
        return found

    def post_filter(
        self, cycle: Cycle, sequence: int, sparing: Sparing = NOBODY
    ) -> Preemption | None:
        """The search for victims for a pod refused by every node: the first plugin's result with a way, else the last result."""
        found, spared = None, self.spared(cycle, sparing)
        for plugin in self._post_filters if spared is not None else ():
            if (
                found := plugin.post_filter(cycle, self.filtering, sequence, spared or sparing)
            ).node:
                break
        return found

    def spared(self, cycle: Cycle, sparing: Sparing) -> Sparing | None:
        """The pods spared in this cycle's search for victims, by every plugin; None = no search now."""
        found: Sparing | None = sparing
        for one in self._spares:
            found = one.sparing(cycle, found) if found is not None else None
        return found


def _binds(profile: Profile, context: PluginContext, pod: Pod) -> bool:
    """Whether Bursar binds a pod: it names a scheduler of its own, or this profile, and stands for no reservation."""
    own = context.reservations
    if own is not None and own.known.is_stand_in(pod.uid):
        return False
    return profile.takes(pod) or bool(pod.constraints and pod.constraints.scheduler_name)


def _check_range(plugin: str, scores: Ints) -> None:
    if scores.min() < LOWEST or scores.max() > HIGHEST:
        raise ScoreRangeError(plugin=plugin)


def _terms(pod: Pod) -> bytes:
    """A pod's constraints for local plugins: without claims and gangs, as these rarely repeat among pods."""
    found = pod.constraints
    if found is None:
        return b""
    if found.claims or found.gang is not None:
        found = msgspec.structs.replace(found, claims=(), ephemeral_claims=(), gang=None)
    return _encode(found)


def _nothing(reason: str = "", refused: dict[str, dict[str, int]] | None = None) -> Choice:
    none = np.zeros(0, np.int64)
    return Choice(-1, none, none, {}, reason, refused or {})
