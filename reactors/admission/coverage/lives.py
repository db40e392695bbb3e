"""The live pods below every owner, and the requests of its children, summed as they come and go. Pure but for its state.

A pod lives until it has ended or was deleted, whatever its owner's template is now. Each object that controls others is a
node of a chain. A node holds the sum of the live pods below it, and the requests of its children. A child counts the larger
of two amounts: its own request, and that of the pods below it. So ending pods count beside the
pods that replace them.
An admitted object counts from its review, until it is observed, or can no longer land. A sum with such an object has the
key :data:`projections.quota_trees.keys.EXPECTED`.

Source: ``docs/admission.md`` ("Objects below an owner").
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import msgspec

from projections import timelines
from projections.engine.parts import Part
from projections.quota_trees.keys import ENDING, EXPECTED, Amounts, largest
from projections.quota_trees.shape import LANDED_US
from reactors.admission.coverage.chains import NOTHING, Awaited, Chains, Node

Undo = Callable[[], None]
_NOBODY = Node("")


class _Pod(msgspec.Struct, gc=False, eq=False):
    node: Node
    #: Its counted amounts, and its observed request; more counts while a reviewed change may still land.
    amounts: Amounts
    seen: Amounts
    #: Of the newest observation, or of a newer review.
    version: str = ""
    seen_us: int = 0
    #: The end of the time in which a reviewed change may land; 0 = none is expected.
    until_us: int = 0
    #: The newest complete list with this observation; 0 = none.
    listed_us: int = 0
    #: Its deletion was asked for.
    is_ending: bool = False
    #: Uid of its observed owner, while a reviewed change gives it another one.
    former: str = ""

    @property
    def live(self) -> Amounts:
        """Its amounts among the live pods."""
        if not self.is_ending:
            return self.amounts
        return {**self.amounts, **{ENDING + k: n for k, n in self.amounts.items() if k != EXPECTED}}


class SavedPod(msgspec.Struct):
    """A pod in a snapshot: as :class:`_Pod`, but for the uid of its parent."""

    uid: str
    node: str
    amounts: dict[str, int]
    seen: dict[str, int]
    version: str
    seen_us: int
    until_us: int
    listed_us: int
    is_ending: bool
    former: str


class SavedLives(msgspec.Struct):
    """The live pods and their owners in a snapshot."""

    nodes: list[Node]
    pods: list[SavedPod]
    _expected: list[tuple[int, str, bool]]


class LiveSums(Part):
    """Follows one cluster. ``mark(uid)`` is called for every object with changed sums."""

    Saved = SavedLives
    derived = frozenset({"_chains", "_pods", "awaited"})

    def __init__(self, parent_of: Callable[[str], str], mark: Callable[[str], None]) -> None:
        """``parent_of(uid)`` is the uid of the object that covers ``uid``; "" for none."""
        self._chains = Chains(parent_of, mark)
        self.awaited = Awaited(self._chains)
        #: By the first two characters of the uid: a complete list comes in parts by uid.
        self._pods: dict[str, dict[str, _Pod]] = {}
        #: (until, uid, is a pod) of expected changes, the first to end first, by any process's clock.
        self._expected: list[tuple[int, str, bool]] = []

    def saved(self) -> SavedLives:
        """The state for a snapshot."""
        pods = [
            SavedPod(uid, pod.node.uid, *msgspec.structs.astuple(pod)[1:])
            for bucket in self._pods.values()
            for uid, pod in bucket.items()
        ]
        return SavedLives(self._chains.all(), pods, sorted(self._expected))

    def restore(self, saved: SavedLives) -> None:
        """Load a snapshot into a new one. Equal pods share their amounts."""
        self._chains.restore(saved.nodes)
        self._expected.extend(saved._expected)
        heapq.heapify(self._expected)
        self.awaited.restore(saved.nodes)
        nodes = {node.uid: node for node in saved.nodes}
        alike: dict[tuple[tuple[str, int], ...], dict[str, int]] = {}
        for one in saved.pods:
            one.amounts = alike.setdefault(tuple(one.amounts.items()), one.amounts)
            one.seen = alike.setdefault(tuple(one.seen.items()), one.seen)
            pod = _Pod(nodes[one.node], *msgspec.structs.astuple(one)[2:])
            self._pods.setdefault(one.uid[:2], {})[one.uid] = pod

    # questions

    def node(self, uid: str) -> Node:
        """The sums below an object, and its own request if an owner covers it; empty for most objects."""
        return self._chains.get(uid) or _NOBODY

    def pod(self, uid: str) -> Amounts | None:
        """The request of a live pod below an owner; None for no such pod."""
        found = self._pods.get(uid[:2], {}).get(uid)
        return found.amounts if found is not None else None

    def shown(self, uid: str) -> tuple[str, int]:
        """The version of the newest observation of a pod below an owner, and the newest complete list with it."""
        found = self._pods.get(uid[:2], {}).get(uid)
        return (found.version, found.listed_us) if found is not None else ("", 0)

    def above(self, uid: str) -> str:
        """The parent of an object, or of a pod; "" for none."""
        node = self._chains.get(uid)
        if node is not None:
            return node.parent
        pod = self._pods.get(uid[:2], {}).get(uid)
        return pod.node.uid if pod is not None else ""

    def is_expected(self, uid: str) -> bool:
        """Whether an admitted new object was not observed yet."""
        node = self._chains.get(uid)
        return node is not None and bool(node.until_us) and not node.version

    def has(self, uid: str) -> bool:
        """Whether anything counts below an object."""
        return uid in self._chains

    # objects

    def see(self, uid: str, ask: Amounts, version: str) -> None:
        """Fold an observed request of an object, below its current parent by ``parent_of``."""
        node = self._chains.get(uid)
        if node is None:
            if not ask:
                return
            node = self._chains.opened(uid)
        self._chains.relink(node)
        is_landed = not node.version or timelines.precedes(node.version, 0, version, 0)
        expected = NOTHING if is_landed else node.expected
        self._chains.say(node, ask, expected)

    def relink(self, uid: str) -> None:
        """Look up the owner of an object again."""
        node = self._chains.get(uid)
        if node is not None:
            self._chains.relink(node)

    def leave(self, uid: str) -> None:
        """Fold the deletion of an object. The pods below it now count for its parent."""
        node = self._chains.get(uid)
        if node is not None:
            self._chains.say(node, NOTHING, NOTHING)

    def expect(self, uid: str, parent: str, ask: Amounts, version: str, now_us: int) -> Undo:
        """Count a reviewed request of an object below ``parent``, in place of its ``version`` ("" = it is created).

        Returns a function to undo it, unless a newer change of the object is expected by then.
        """
        node = self._chains.opened(uid)
        former, before = node.parent, (node.expected, node.version, node.until_us)
        self._chains.relink(node, parent)
        node.version, node.until_us = version, now_us + LANDED_US
        heapq.heappush(self._expected, (node.until_us, uid, False))
        self._chains.say(node, node.ask, largest(node.expected, {**ask, EXPECTED: 1}))

        def undo() -> None:
            found = self._chains.get(uid)
            if found is None or (found.version, found.until_us) != (version, now_us + LANDED_US):
                return
            expected, found.version, found.until_us = before
            self._chains.link(found, former)
            self._chains.say(found, found.ask, expected)

        return undo

    # pods

    def see_pod(
        self,
        uid: str,
        parent: str,
        amounts: Amounts,
        version: str,
        time_us: int,
        *,
        is_ending: bool = False,
    ) -> None:
        """A live pod below ``parent`` was seen."""
        before = self._pods.get(uid[:2], {}).get(uid)
        is_known = before is not None and (before.version or before.seen_us)
        if before is not None and is_known:
            # A review may be newer than the observation.
            if not timelines.precedes(before.version, before.seen_us, version, time_us):
                return
        node = self._chains.opened(parent)
        self._put(uid, _Pod(node, amounts, amounts, version, time_us, is_ending=is_ending))

    def drop_pod(self, uid: str) -> None:
        """A pod has ended or is gone, or counts below no owner from now on."""
        self._put(uid, None)

    def expect_pod(
        self, uid: str, parent: str, amounts: Amounts, version: str, now_us: int
    ) -> Undo:
        """Count a reviewed request of a pod below ``parent``, in place of its ``version`` ("" = it is created).

        Returns a function to undo it, unless a newer state of the pod is known by then.
        """
        before = self._pods.get(uid[:2], {}).get(uid)
        until_us = now_us + LANDED_US
        heapq.heappush(self._expected, (until_us, uid, True))
        node = self._chains.opened(parent)
        pod = _Pod(node, {**amounts, EXPECTED: 1}, NOTHING, until_us=until_us)
        if before is not None:
            # It lands after that version: earlier observations do not show it.
            pod = _Pod(
                node, largest(before.amounts, pod.amounts), before.seen, version or before.version, before.seen_us,
                until_us, is_ending=before.is_ending, former=before.former or before.node.uid,
            )  # fmt: skip
        self._put(uid, pod)

        def undo() -> None:
            if self._pods.get(uid[:2], {}).get(uid) is pod:
                self._put(uid, before)

        return undo

    def expire(self, now_us: int) -> None:
        """Drop expected changes that can no longer land."""
        while self._expected and self._expected[0][0] <= now_us:
            until_us, uid, is_pod = heapq.heappop(self._expected)
            pod, node = self._pods.get(uid[:2], {}).get(uid), self._chains.get(uid)
            # A later review of the same object has its own time.
            if is_pod and pod is not None and pod.until_us == until_us:
                above = pod.former or pod.node.uid
                seen = _Pod(
                    self._chains.opened(above), pod.seen, pod.seen, pod.version, pod.seen_us,
                    is_ending=pod.is_ending,
                )  # fmt: skip
                self._put(uid, seen if pod.seen_us else None)
            elif not is_pod and node is not None and node.until_us == until_us:
                self._chains.relink(node)
                self._chains.say(node, node.ask, NOTHING)

    def listed(
        self,
        first: str,
        until: str,
        present: set[str],
        listed_us: int,
        exists: Callable[[str], bool],
    ) -> None:
        """Fold a complete list of the pods with a uid in [``first``, ``until``), requested at ``listed_us``.

        ``exists(uid)``: a pod exists, even if it is not in the list.
        """
        for start, bucket in self._pods.items():
            if start < first[:2] or (until and start > until[:2]):
                continue
            for uid, pod in list(bucket.items()):
                is_covered = first <= uid and (not until or uid < until)
                if is_covered and uid in present:
                    pod.listed_us = max(pod.listed_us, listed_us)
                # Pods observed or admitted since the request may be younger than the list.
                known_us = max(pod.seen_us, pod.until_us)
                is_late = known_us < listed_us and not exists(uid)
                if is_covered and uid not in present and is_late:
                    self.drop_pod(uid)

    def _put(self, uid: str, pod: _Pod | None) -> None:
        """A pod is this from now on; None: it counts nowhere."""
        bucket = self._pods.setdefault(uid[:2], {})
        before = bucket.pop(uid, None)
        if pod is not None:
            bucket[uid] = pod
            self._chains.keep(pod.node)
        if before is not None and pod is not None and before.node is pod.node:
            if (before.amounts, before.is_ending) != (pod.amounts, pod.is_ending):
                self._chains.add(
                    pod.node.uid, before.amounts, pod.amounts, before.live, pod.live, 0
                )
            return
        if pod is not None:
            self._chains.add(pod.node.uid, NOTHING, pod.amounts, NOTHING, pod.live, 1)
        if before is not None:
            self._chains.add(before.node.uid, before.amounts, NOTHING, before.live, NOTHING, -1)
