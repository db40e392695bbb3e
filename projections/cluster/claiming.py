"""The demand of pods and workloads by claims of devices, as far as classes, templates and claims are known.

An object with a template asks for its largest possible allocation; a pod for the allocation of its claims, once all
of them were observed. So the rows of pods and workloads change when a template, a class or a claim does. A claim
without an owning pod is a workload itself.

Source: docs/devices.md ("Devices in quotas").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, TypeAlias, cast

import msgspec

from bus.events.devices import DeviceAsk, DeviceResult, ResourceClaimObserved
from bus.kube.kinds import CLAIM_TEMPLATE, Ask
from projections.cluster.devices import (
    ClaimTemplate,
    DeviceClaim,
    DeviceClass,
    DeviceSlice,
    Requests,
    bytes_of,
)
from projections.cluster.index import Groups
from projections.cluster.objects import Change
from projections.cluster.rows import Pod, Workload
from projections.devices import demand
from projections.devices.demand import GPU_DRIVERS, IMPLICIT, Sizes, serving_class

Amounts = dict[str, int]
_USERS = (Pod, Workload)
_User: TypeAlias = Pod | Workload | None
#: A common text in all names of device claims, whatever resources classes serve.
_CLAIMING = (CLAIM_TEMPLATE, IMPLICIT, DeviceClaim.kind)
REQUESTS, LIMITS = "requests.", "limits."
_NONE: Amounts = {}


class Claiming:
    """Derived from the rows of a cluster's state, and changes them; ``seen`` is the state's own, by class."""

    def __init__(
        self,
        pods: MutableMapping[str, Pod],
        workloads: MutableMapping[str, Workload],
        classes: Mapping[str, DeviceClass],
        claims: Mapping[str, DeviceClaim],
        templates: Mapping[str, ClaimTemplate],
        slices: Mapping[str, DeviceSlice],
        seen: dict[str, str],
        named: Callable[[str, str, str], str],
    ) -> None:
        self._pods = pods
        self._workloads = workloads
        self._classes = classes
        self._claims = claims
        self._templates = templates
        self._slices = slices
        #: Classes with an allocated card in a claim, and the counting of those cards.
        self._seen = seen
        #: A late claim adds information about classes.
        self._is_resized = False
        self._named = named
        self._sizes = Sizes({}, {})
        #: By extended resource: its class.
        self.serves: dict[str, str] = {}
        #: By namespace and name of a template: the objects with it. Demands for resources of classes.
        self._naming: Groups[tuple[str, str]] = Groups()
        self._requesting: set[str] = set()
        #: By the uid of a pod: the claims made for it.
        self._made: Groups[str] = Groups()
        #: By driver and pool: its slices, and the claims with devices of it.
        self._by_pool: Groups[tuple[str, str]] = Groups()
        self._given: Groups[tuple[str, str]] = Groups()

    def restore(self) -> None:
        """Begin with the saved rows and their saved demands."""
        for row in (*self._claims.values(), *self._slices.values()):
            self._index(None, row)
        users: list[Pod | Workload] = [*self._pods.values(), *self._workloads.values()]
        for user in users:
            self._user(None, user)
        self._sizes, self.serves = _measured(self._classes, self._slices, self._seen)

    def given(self, fact: ResourceClaimObserved) -> None:
        """A claim was observed, now or before other claims: the classes of its allocated cards provide cards."""
        if fact.allocation is None:
            return
        for name, card in demand.classes_given(fact.requests, fact.allocation).items():
            # Of several drivers of one class always the same one, whichever was seen first.
            if name not in self._seen or card < self._seen[name]:
                self._seen[name], self._is_resized = card, True

    def follow(self, changes: list[Change]) -> None:
        """Rows changed: their demands, and those of others, may change. Changes of others are added to ``changes``."""
        if not changes and not self._is_resized:
            return
        stale = self._resized() if self._is_resized else set[str]()
        for change in tuple(changes):
            before, after = change.before, change.after
            row = after if after is not None else before
            if isinstance(row, _USERS):
                if self._user(cast("_User", before), cast("_User", after)):
                    self._renew(row)
            elif isinstance(row, ClaimTemplate):
                stale |= self._naming[row.namespace, row.name]
            elif isinstance(row, DeviceClaim):
                stale |= self._claim(before, after)
            elif isinstance(row, DeviceSlice):
                stale |= self._slice(before, after)
            elif isinstance(row, DeviceClass):
                stale |= self._resized()
        for uid in sorted(stale):
            self._again(uid, changes)

    def asked(self, ask: Ask, namespace: str) -> Ask:
        """An ask with the largest allocation of its device claims in the place of their templates."""
        total, one = self._found(ask.demand, namespace), ask.per_replica
        one = None if one is None else self._found(one, namespace)
        wanted = self._found(ask.wanted, namespace)
        if total is ask.demand and one is ask.per_replica and wanted is ask.wanted:
            return ask
        return msgspec.structs.replace(ask, demand=total, per_replica=one, wanted=wanted)

    def requested(self, requests: Requests) -> Amounts:
        """The demand of a claim with these requests, by quota key."""
        return _keys(demand.asked(requests, self._sizes))

    def naming(
        self, namespace: str, template: str, requests: Requests
    ) -> Iterator[tuple[str, Amounts]]:
        """The uids of pods and workloads with a template, and each one's demand if the template had these requests.

        Pods with claims already made are excluded.
        """
        for uid in sorted(self._naming[namespace, template]):
            row = self._pods.get(uid) or self._workloads.get(uid)
            if isinstance(row, Workload):
                written = (row.written if row.written is not None else row.ask).demand
            elif row is not None and self.all_made(row) is None:
                written = _written(row)
            else:
                continue
            yield uid, self._found(written, namespace, {template: requests})

    def _index(self, before: object, after: object) -> None:
        """A claim or a slice changed."""
        for row, put in ((before, Groups.discard), (after, Groups.add)):
            if isinstance(row, DeviceSlice):
                put(self._by_pool, (row.driver, row.pool), row.uid)
            elif isinstance(row, DeviceClaim):
                if row.is_generated and row.owner is not None:
                    put(self._made, row.owner.uid, row.uid)
                for pool in _pools(row):
                    put(self._given, pool, row.uid)

    def _user(self, before: Pod | Workload | None, after: Pod | Workload | None) -> bool:
        """A pod or a workload changed. Whether it asks for devices by claim: most do not."""
        was, now = _text(before), _text(after)
        if was != now:
            if before is not None:
                for name in _templates(was, before):
                    self._naming.discard((before.namespace, name), before.uid)
                self._requesting.discard(before.uid)
            if after is not None and "/" in now:
                for name in _templates(now, after):
                    self._naming.add((after.namespace, name), after.uid)
                self._requesting.add(after.uid)
        return "/" in now and (bool(self.serves) or any(one in now for one in _CLAIMING))

    def _claim(self, before: object, after: object) -> set[str]:
        """A claim changed; returns possibly changed objects."""
        self._index(before, after)
        return _users(row for row in (before, after) if isinstance(row, DeviceClaim))

    def _slice(self, before: object, after: object) -> set[str]:
        """A slice changed; returns possibly changed objects: with devices of its pool, or possibly its largest."""
        self._index(before, after)
        rows = [row for row in (before, after) if isinstance(row, DeviceSlice)]
        is_resized = _is_resizing(before, after, self._sizes.memory)
        stale = self._resized() if is_resized else set[str]()
        for row in rows:
            stale |= _users(self._claims[uid] for uid in self._given[row.driver, row.pool])
        return stale

    def _resized(self) -> set[str]:
        """Classes or slices changed; returns possibly changed objects."""
        self._is_resized = False
        before = (self._sizes, self.serves)
        self._sizes, self.serves = _measured(self._classes, self._slices, self._seen)
        if before == (self._sizes, self.serves):
            return set()
        users = set().union(*self._naming.values(), self._requesting)
        claims = {uid for uid, one in self._workloads.items() if one.kind == DeviceClaim.kind}
        return users | claims | set(self._made)

    def _renew(self, row: Pod | Workload) -> None:
        """Set a row's demand to the current one."""
        if isinstance(row, Pod):
            row.by_claim = self._of_pod(row)
            return
        if row.kind == DeviceClaim.kind:
            claim = self._claims.get(row.uid)
            row.ask = Ask(_keys(self._of_claim(claim)), 1) if claim is not None else Ask()
            return
        written = row.written if row.written is not None else row.ask
        row.ask = self.asked(written, row.namespace)
        row.written = None if row.ask is written else written

    def _again(self, uid: str, changes: list[Change]) -> None:
        if (before := self._pods.get(uid) or self._workloads.get(uid)) is None:
            return
        after = msgspec.structs.replace(before)
        self._renew(after)
        if after != before:
            rows: MutableMapping[str, Any] = (
                self._pods if isinstance(after, Pod) else self._workloads
            )
            rows[uid] = after
            changes.append(Change(after.kind, uid, before, after))

    def _of_pod(self, pod: Pod) -> Amounts:
        if (made := self.all_made(pod)) is not None:
            given: Amounts = {}
            for claim in made:
                demand.add(given, self._of_claim(claim))
            for name in pod.claimed:
                # The pod's requests name these as well.
                given[name] = max(given.get(name, 0) - pod.demand.get(LIMITS + name, 0), 0)
            return _keys(given)
        found = self._found(_written(pod), pod.namespace)
        added = {key: n - pod.demand.get(key, 0) for key, n in found.items()}
        return {key: n for key, n in added.items() if n} or _NONE

    def all_made(self, pod: Pod) -> list[DeviceClaim] | None:
        """The claims made for a pod; None while some of them are unobserved."""
        made = [self._claims[uid] for uid in sorted(self._made[pod.uid])]
        is_all = made and len(made) >= len(pod.templates) + bool(pod.claimed)
        return made if is_all else None

    def _of_claim(self, claim: DeviceClaim) -> Amounts:
        if claim.allocation is None:
            return demand.asked(claim.requests, self._sizes)

        def memory_of(result: DeviceResult) -> int:
            offered = sorted(self._by_pool[result.driver, result.pool])
            return _memory_of((self._slices[uid] for uid in offered), self._sizes, result)

        return demand.given(claim.requests, claim.allocation, self._sizes, memory_of)

    def _found(
        self,
        amounts: Amounts,
        namespace: str,
        templates: Mapping[str, Requests] | None = None,
    ) -> Amounts:
        """With devices in the place of known templates, and in addition to extended resources served by a class."""
        found: Amounts | None = None
        for key, times in amounts.items():
            if "/" not in key or (one := self._one(key, namespace, templates or {})) is None:
                continue
            found = dict(amounts) if found is None else found
            if key.startswith(CLAIM_TEMPLATE):
                del found[key]
            demand.add(found, _keys(one), times)
        return amounts if found is None else found

    def _one(self, key: str, namespace: str, templates: Mapping[str, Requests]) -> Amounts | None:
        """The amounts behind one key of a demand; None for a key without a template or a class.

        An unobserved template stays in the demand: quotas of devices refuse it.
        """
        if key.startswith(CLAIM_TEMPLATE):
            name = key.removeprefix(CLAIM_TEMPLATE)
            template = self._templates.get(self._named(ClaimTemplate.kind, namespace, name))
            requests = templates.get(name, template.requests if template else None)
            return None if requests is None else demand.asked(requests, self._sizes)
        if not key.startswith(LIMITS):
            return None
        name = key.removeprefix(LIMITS)
        serving = serving_class(name, self.serves)
        if not serving:
            return None
        one = demand.one_of(DeviceAsk(serving), self._sizes)
        return (
            one if name.startswith(IMPLICIT) else {key: n for key, n in one.items() if key != name}
        )


def _pools(claim: DeviceClaim) -> set[tuple[str, str]]:
    """The drivers and pools of a claim's devices."""
    results = claim.allocation.results if claim.allocation is not None else ()
    return {(one.driver, one.pool) for one in results}


def _users(claims: Iterable[DeviceClaim]) -> set[str]:
    """The uids of claims, and of their pods."""
    found = set[str]()
    for one in claims:
        found.add(one.uid)
        if one.is_generated and one.owner is not None:
            found.add(one.owner.uid)
    return found


def _measured(
    classes: Mapping[str, DeviceClass], slices: Mapping[str, DeviceSlice], seen: Mapping[str, str]
) -> tuple[Sizes, dict[str, str]]:
    """The measured classes and drivers, and the class of each extended resource."""
    cards, serves, memory = dict(seen), dict[str, str](), dict[str, int]()
    for row in sorted(classes.values(), key=lambda one: one.name):
        if row.extended_name:
            serves.setdefault(row.extended_name, row.name)
        if card := demand.card_class(row.name, row.extended_name):
            cards[row.name] = card
    for one in slices.values():
        if one.driver in GPU_DRIVERS and one.memory > memory.get(one.driver, 0):
            memory[one.driver] = one.memory
    return Sizes(cards, memory), serves


def _is_resizing(before: object, after: object, largest: Mapping[str, int]) -> bool:
    """Whether a change of a slice may change the largest memory of a driver's devices. Where all are alike most do not."""
    rows = [row for row in (before, after) if isinstance(row, DeviceSlice)]
    drivers = {row.driver for row in rows}
    most = max((largest.get(driver, 0) for driver in drivers), default=0)
    was, now = (row.memory if isinstance(row, DeviceSlice) else 0 for row in (before, after))
    return not drivers.isdisjoint(GPU_DRIVERS) and (
        len(drivers) > 1 or now > most or was >= most > now
    )


def _memory_of(slices: Iterable[DeviceSlice], sizes: Sizes, result: DeviceResult) -> int:
    """Bytes of device memory in a result; for an unobserved device the driver's largest."""
    text = result.consumed.get("memory")
    for one in () if text else slices:
        for device in one.devices():
            if device.name == result.device:
                text = device.capacity.get("memory", "0")
    return sizes.memory.get(result.driver, 0) if text is None else bytes_of(text)


def _written(pod: Pod) -> Amounts:
    """A pod's demand as it is written, with the templates of its claims."""
    written = dict(pod.demand)
    for name in pod.templates:
        demand.add(written, {CLAIM_TEMPLATE + name: 1})
    return written


def _keys(amounts: Amounts) -> Amounts:
    """Amounts by quota key of amounts by resource: the limit of a device is its request."""
    return {prefix + name: n for name, n in amounts.items() if n for prefix in (REQUESTS, LIMITS)}


def _text(row: Pod | Workload | None) -> str:
    """All names of possible devices in a row; without a slash it is nothing."""
    if row is None:
        return ""
    if isinstance(row, Pod):
        names = "".join(CLAIM_TEMPLATE + name for name in row.templates)
        return "" if row.is_ended else "".join(row.demand) + names
    ask = row.written if row.written is not None else row.ask
    kind = f"/{row.kind}" if row.kind == DeviceClaim.kind else ""
    return "".join((*ask.demand, *(ask.per_replica or ()), *ask.wanted, kind))


def _templates(text: str, row: Pod | Workload) -> Iterable[str]:
    """The templates of claims in a row with this text."""
    if CLAIM_TEMPLATE not in text:
        return ()
    if isinstance(row, Pod):
        return row.templates
    ask = row.written if row.written is not None else row.ask
    keys = (*ask.demand, *(ask.per_replica or ()), *ask.wanted)
    return {key.removeprefix(CLAIM_TEMPLATE) for key in keys if key.startswith(CLAIM_TEMPLATE)}
