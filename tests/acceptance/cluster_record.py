"""Who holds what by the API server's own record: the live pods' own requests by quota, write by write. Pure.

By sums of the test's own, from stored objects alone. An object counts below its controller only where a controller of
Kubernetes wrote that reference (`metadata.managedFields` say who did). Anybody may write another one, so such an object
counts for itself, also where a controller writes the same one once more. The top of such a chain is the holder: its quota, by
its label and its namespace, is that of all live pods below it. A pod lives from the write that makes it until it has ended or
is gone, bound or not.

Source: ``docs/admission.md`` ("Objects below an owner", "Namespaces of a quota").
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from tests.acceptance.apiserver import GIB, QUOTA, TYPE

#: Kind to the field that says how many pods a template is made to.
TEMPLATED = {"Deployment": "replicas", "ReplicaSet": "replicas", "Job": "parallelism"}
CONTROLLERS = "kube-controller-manager"
NOTHING = (0, 0, 0)


class Write(NamedTuple):
    """One write: the object as it was stored from then on, or as it was deleted."""

    version: int
    #: When it was heard of, in seconds of the machine's clock.
    at: float
    kind: str
    is_gone: bool
    object: dict


class Quotas(NamedTuple):
    """Which quotas there are, and which one a namespace is mapped to."""

    parents: dict
    mapped: dict

    def of(self, labels, namespace):
        """The quota of what has these labels."""
        mapped = self.mapped[namespace]
        named = above = labels.get(QUOTA, mapped)
        while above and above != mapped:
            above = self.parents.get(above, "")
        return named if above else mapped


@dataclass
class Item:
    """An object, and what hangs below it. Amounts: (milli-cores, bytes, milli-cores that name model A4 themselves)."""

    uid: str
    kind: str
    namespace: str = ""
    labels: dict = field(default_factory=dict)
    parent: str = ""
    #: The controllers that its references name.
    named: frozenset = frozenset()
    #: What it asks for itself: a live pod its own requests, what makes pods those of all its replicas.
    own: tuple = NOTHING
    #: What its children count for, and the live pods among all that hangs below it.
    total: tuple = NOTHING
    pods: tuple = NOTHING

    @property
    def weight(self):
        """What it counts for its controller: no less than what it asks for, and no less than what hangs below it."""
        return tuple(map(max, self.own, self.total))

    @property
    def live(self):
        return plus(self.pods, self.own) if self.kind == "Pod" else self.pods

    def amounts(self, vector):
        """These amounts by quota key, as its own labels have the model."""
        cpu, memory, named = vector
        found = {"limits.cpu": cpu, "requests.memory": memory}
        found["limits.cpu.A4"] = cpu if self.labels.get(TYPE) == "A4" else named
        return {key: n for key, n in found.items() if n}


class Record:
    """All that is stored, after the writes that were taken in the order of their versions."""

    def __init__(self, quotas, unasked=frozenset()):
        """``unasked``: uids of pods that count for nobody."""
        self._quotas = quotas
        self._unasked = unasked
        self.items = {}
        #: By quota: what the live pods in it ask for.
        self.used = defaultdict(Counter)
        #: The same before the last write, of the quotas that it touched.
        self.before = {}

    def apply(self, write):
        """Fold one write; gives the uids of all whose weight or place it may have changed."""
        metadata = write.object["metadata"]
        uid = metadata["uid"]
        item = self.items.get(uid) or self.items.setdefault(uid, Item(uid, write.kind))
        # Whoever is deleted keeps its place: what hangs below it ends there.
        parent = item.parent
        named = frozenset(one["uid"] for one in controllers(metadata))
        if not write.is_gone and parent not in named:
            wrote = controlling(metadata)
            parent = wrote if wrote not in item.named else ""
        parent = parent if parent in self.items else ""
        self.before = {}
        touched = {*self._chain(uid), *(self._chain(parent) if parent else ())}
        self._count(touched, -1)
        self._hang(item, -1)
        item.parent, item.named, item.namespace = parent, named, metadata["namespace"]
        counts = not (write.is_gone or uid in self._unasked)
        item.own = asks(write.kind, write.object) if counts else NOTHING
        item.labels = labels(write.object)
        self._hang(item, 1)
        self._count(touched, 1)
        return touched

    def _hang(self, item, sign):
        """Add an item, or take it away, where it hangs."""
        weight, live = item.weight, item.live
        before = (weight, live) if sign < 0 else (NOTHING, NOTHING)
        after = (NOTHING, NOTHING) if sign < 0 else (weight, live)
        above = self.items.get(item.parent)
        while above is not None:
            was = above.weight, above.live
            above.total = plus(minus(above.total, before[0]), after[0])
            above.pods = plus(minus(above.pods, before[1]), after[1])
            before, after = was, (above.weight, above.live)
            above = self.items.get(above.parent)

    def _chain(self, uid):
        found = [uid]
        while parent := self.items[found[-1]].parent:
            found.append(parent)
        return found

    def _count(self, uids, sign):
        """Count what lives below those of ``uids`` that answer for themselves, or count it no more."""
        for item in map(self.items.get, uids):
            if item.parent or not item.namespace:
                continue
            quota = self.quota(item.uid)
            self.before.setdefault(quota, dict(self.used[quota]))
            for key, amount in item.amounts(item.live).items():
                self.used[quota][key] += sign * amount

    def quota(self, uid):
        """The quota of an object that answers for itself."""
        item = self.items[uid]
        return self._quotas.of(item.labels, item.namespace)

    def holds(self, uid):
        """(quota, amounts) of one object: what it has to be charged with; of what another answers for ("", nothing)."""
        item = self.items.get(uid)
        if item is None or item.parent:
            return "", {}
        return self.quota(uid), item.amounts(item.weight)

    def lives(self, uid):
        """The amounts of the live pods below an object, or of itself."""
        item = self.items.get(uid)
        return {} if item is None else item.amounts(item.live)

    def held(self):
        """(quota, uid) to amounts, of all that holds something."""
        found = {uid: self.holds(uid) for uid in self.items}
        return {(quota, uid): amounts for uid, (quota, amounts) in found.items() if amounts}


def plus(one, other):
    return tuple(a + b for a, b in zip(one, other, strict=True))


def minus(one, other):
    return tuple(a - b for a, b in zip(one, other, strict=True))


def labels(stored):
    """Its own quota and model, else those of its template."""
    template = stored["spec"].get("template") or {}
    made = (template.get("metadata") or {}).get("labels") or {}
    return {
        key: value
        for key in (QUOTA, TYPE)
        if (value := (stored["metadata"].get("labels") or {}).get(key) or made.get(key))
    }


def asks(kind, stored):
    """What a stored object asks for itself."""
    spec = stored["spec"]
    if kind != "Pod":
        template = spec["template"]
        one = _requests(template["spec"], (template.get("metadata") or {}).get("labels"))
        return tuple(n * spec.get(TEMPLATED[kind], 1) for n in one)
    if stored.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return NOTHING
    return _requests(spec, stored["metadata"].get("labels"))


def _requests(spec, own_labels):
    limits = [one["resources"]["limits"] for one in spec["containers"]]
    cpu = sum(milli(one["cpu"]) for one in limits)
    memory = sum(GIB * int(one["memory"].removesuffix("Gi")) for one in limits)
    return cpu, memory, cpu if (own_labels or {}).get(TYPE) == "A4" else 0


def milli(quantity):
    return int(quantity[:-1]) if quantity.endswith("m") else 1000 * int(quantity)


def controllers(metadata):
    """Its references to controllers."""
    return [one for one in metadata.get("ownerReferences") or () if one.get("controller")]


def controlling(metadata):
    """The uid of its controller, where one of Kubernetes' own wrote that reference; "" otherwise."""
    for reference in controllers(metadata):
        mark = f'k:{{"uid":"{reference["uid"]}"}}'
        if any(
            one.get("manager") == CONTROLLERS
            and mark in one["fieldsV1"].get("f:metadata", {}).get("f:ownerReferences", {})
            for one in metadata.get("managedFields") or ()
        ):
            return reference["uid"]
    return ""


class Excess(NamedTuple):
    """More lives in a quota than it allows, from one write on."""

    write: Write
    quota: str
    key: str
    live: int
    limit: int

    def __str__(self):
        metadata = self.write.object["metadata"]
        how = "delete" if self.write.is_gone else "write"
        what = f"{how} {self.write.version} of {self.write.kind} {metadata['name']}"
        return f"{self.quota} {self.key}: {self.live} live of {self.limit} after {what}"


def excesses(writes, quotas, hard, unasked=frozenset()):
    """Every write after which the live pods of a quota ask for more than it allows and than they did before.

    ``hard``: quota to (parent, limits). What its children may use is none of a quota's own. ``unasked``: pods that the API
    server made while nobody answered.
    """
    room = {name: Counter(limits) for name, (_, limits) in hard.items()}
    for parent, limits in hard.values():
        if parent:
            room[parent].subtract(limits)
    record, found = Record(quotas, unasked), []
    for write in writes:
        record.apply(write)
        for name, before in record.before.items():
            for key, limit in room[name].items():
                live = record.used[name][key]
                if live > limit and live > before.get(key, 0):
                    found.append(Excess(write, name, key, live, limit))
    return found


class Lag(NamedTuple):
    """A quota was charged with something else than there is for so long, from the moment ``began``."""

    seconds: float
    began: float
    quota: str
    uid: str
    charge: dict
    there: dict


class Lags:
    """Follows a record and the charges of the journals beside it.

    `above`: charges above what their object asks for or lives below it. A request that is admitted may land until the API
    server's deadline, so each for the same object begins the time anew; so does each write after which it, or what makes pods
    below it, asks for less: what its controller still makes of the rest may land as late. `below`: charges below the live pods.
    """

    def __init__(self, quotas, unasked=frozenset()):
        self._record = Record(quotas, unasked)
        self._charges = {}
        self._since = {}
        self.above, self.below = [], []

    def write(self, write):
        """Take a write of the record."""
        known = self._record.items.get(write.object["metadata"]["uid"], Item("", ""))
        asked = known.own
        touched = self._record.apply(write)
        if write.kind != "Pod" and any(n > 0 for n in minus(asked, known.own)):
            for uid in touched:
                self._begin(uid, write.at)
        for uid in touched:
            self._compare(uid, write.at)

    def charge(self, at, quota, uid, amounts, is_asked):
        """Take what a journal holds for an object from now on; ``is_asked``: because of a request."""
        self._charges.setdefault(uid, {})[quota] = amounts
        if is_asked:
            self._begin(uid, at)
        self._compare(uid, at)

    def _begin(self, uid, at):
        """Begin the time anew in which an object is charged with more than there is."""
        for place in [one for one in self._since if one[1:] == (uid, True)]:
            self._over(place, at)

    def end(self, at):
        """Take what lasts to be as old as it is now; the longest come first."""
        for place in list(self._since):
            self._over(place, at)
        for found in (self.above, self.below):
            found.sort(reverse=True, key=lambda one: one.seconds)

    def _compare(self, uid, at):
        place, holds = self._record.holds(uid)
        for quota in {place, *self._charges.get(uid, {})} - {""}:
            charge = self._charges.get(uid, {}).get(quota, {})
            wanted = holds if quota == place else {}
            live = self._record.lives(uid) if quota == place else {}
            is_above = any(n > wanted.get(key, 0) for key, n in charge.items())
            is_below = any(n > charge.get(key, 0) for key, n in live.items())
            for is_so, place_, there in (
                (is_above, (quota, uid, True), wanted),
                (is_below, (quota, uid, False), live),
            ):
                if not is_so:
                    self._over(place_, at)
                else:
                    self._since.setdefault(place_, (at, charge, there))

    def _over(self, place, at):
        if place in self._since:
            began, charge, there = self._since.pop(place)
            quota, uid, is_above = place
            found = self.above if is_above else self.below
            found.append(Lag(at - began, began, quota, uid, charge, there))


def without(lags, away):
    """The same lags without the time of the stretches ``away``, each (from, to); the longest come first."""
    found = []
    for lag in lags:
        end = lag.began + lag.seconds
        overlaps = (min(end, to) - max(lag.began, since) for since, to in away)
        found.append(lag._replace(seconds=lag.seconds - sum(max(0, one) for one in overlaps)))
    return sorted(found, reverse=True, key=lambda one: one.seconds)


def lagging(writes, charges, quotas, until, unasked=frozenset()):
    """:class:`Lags` up to the moment ``until``. ``charges``: what :meth:`Lags.charge` takes, in the journals' order.

    A watch may tell something later than another watch tells what came behind it: it happened before both.
    """
    lags = Lags(quotas, unasked)
    moments = zip(_moments([write.at for write in writes]), writes, strict=True)
    steps = [(at, lags.write, (write._replace(at=at),)) for at, write in moments]
    moments = zip(_moments([charge[0] for charge in charges]), charges, strict=True)
    steps += [(at, lags.charge, (at, *charge[1:])) for at, charge in moments]
    for _, take, step in sorted(steps, key=lambda one: one[0]):
        take(*step)
    lags.end(until)
    return lags


def _moments(heard):
    """When each happened at the latest, by when it and all that came behind it were heard of."""
    return list(accumulate(reversed(heard), min))[::-1]
