"""Random histories of a small cluster, and what docs/accounting.md says of them, worked out by brute force.

:func:`worlds` draws what happened; :func:`events_of` is what a source would publish of it. :func:`expected` is written from
the rules alone, over everything that was seen at once: it shares no code with the folds.
"""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from bus.events.observations import SourceHeard
from tests import factories as f

HOUR, DAY = 3600, 86400


@dataclass(frozen=True)
class Seen:
    """One observation; times in tenths of a second after the start, ``version`` its place among all of them."""

    kind: str
    name: str
    at: int
    version: int = 0
    fields: tuple = ()
    has: tuple = ()

    def __getitem__(self, field):
        return dict(self.fields).get(field)


def worlds(strange=False):
    """Observations in the order in which they happened. ``strange``: delayed, by wrong clocks, owners that change."""
    return _world(strange)


@st.composite
def _world(draw, strange):
    seen, lives = [], {}
    for number in range(draw(st.integers(1, 3))):
        uid = f"p{number}"
        pod, lives[uid] = _pod_life(draw, uid, strange)
        seen += pod
    for name in ("ns", "other"):
        for _ in range(draw(st.integers(0, 2))):
            fields = {"team": draw(_names), "user": draw(_names), "quota": draw(_quotas)}
            seen.append(Seen("namespace", name, draw(_moments), fields=tuple(fields.items())))
    for name in ("n0", "n1"):
        for _ in range(draw(st.integers(0, 2))):
            model = draw(st.sampled_from((None, "A", "B")))
            seen.append(Seen("node", name, draw(_moments), fields=(("model", model),)))
    for name, above in (("rs0", "d0"), ("rs1", "d0"), ("d0", "top")):
        for _ in range(draw(st.integers(0, 1))):
            fields = {"above": draw(st.sampled_from((None, above))), "quota": draw(_quotas)}
            seen.append(Seen("workload", name, draw(_moments), fields=tuple(fields.items())))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(_moments)
        there = tuple(uid for uid, (first, gone) in lives.items() if first <= at < gone)
        seen.append(Seen("list", "", at, has=there))
    seen += [Seen("beat", "", draw(_moments)) for _ in range(draw(st.integers(0, 3)))]
    # Close to what is observed, on both sides of a silence.
    near = st.sampled_from([s.at for s in seen])
    for _ in range(draw(st.integers(0, 2))):
        seen.append(Seen("beat", "", max(0, draw(near) - draw(st.sampled_from((1, 740, 760))))))
    seen.sort(key=lambda s: (s.at, s.kind == "list"))
    return _delivered(draw, [replace(s, version=n + 1) for n, s in enumerate(seen)], strange)


_names = st.sampled_from((None, "a", "b"))
#: (quota, cpu type) that an object's labels name; quota "k" by Koordinator's label.
_quotas = st.sampled_from(
    ((None, None), (None, None), ("q", None), ("q", "A4"), ("k", None), (None, "A4"))
)
_gaps = st.sampled_from((0, 3, 10, 17, 70, 500, 36_000, 400_000))
_moments = st.one_of(st.integers(0, 1_500), st.integers(0, 900_000))
_FOR_EVER = 10**9
#: Of DisruptionTarget; "" is another component's.
_reasons = st.sampled_from(("TerminationByKubelet", "DeletionByPodGC", "EvictionByEvictionAPI", ""))


def _pod_life(draw, uid, strange):
    """What a watch would show of one pod, and when it was there: [first, gone)."""
    created = draw(_moments) // 10 * 10
    base = {
        "namespace": draw(st.sampled_from(("ns", "ns", "other"))),
        "created": created,
        "owner": draw(st.sampled_from((None, "rs0", "rs1"))),
        "team": draw(_names),
        "user": draw(_names),
        "quota": draw(_quotas),
        "cpu": draw(st.integers(1, 3)),
    }
    now = created + draw(st.integers(0, 12))
    shown = [Seen("pod", uid, now, fields=tuple((base | {"phase": "Pending"}).items()))]
    how = draw(st.sampled_from(("bound", "bound", "bound", "direct", "no node", "never")))
    if how != "never":
        node = draw(st.sampled_from(("n0", "n1"))) if how != "no node" else None
        base |= {"node": node, "phase": "Running"}
        if how == "bound":
            now += draw(_gaps)
            base["scheduled"] = max(created, now // 10 * 10)
        else:
            shown = []
        base["acknowledged"] = draw(st.sampled_from((None, None, now // 10 * 10 + 10)))
        shown.append(Seen("pod", uid, now, fields=tuple(base.items())))
        for _ in range(draw(st.integers(0, 3))):
            now += draw(_gaps)
            changed = draw(st.sampled_from(("cpu", "team", "user", "quota", "nothing")))
            if changed == "cpu":
                base["cpu"] = draw(st.integers(1, 3))
            elif changed == "quota":
                base["quota"] = draw(_quotas)
            elif changed != "nothing":
                base[changed] = draw(_names)
            if draw(st.integers(0, 4)) == 0:
                # A kubelet that was just restarted writes a status without conditions.
                base |= {"scheduled": None, "acknowledged": now // 10 * 10}
            if draw(st.integers(0, 4)) == 0:
                base |= {"disrupted": now // 10 * 10, "disruption": draw(_reasons)}
            if strange and draw(st.booleans()):
                base["owner"] = draw(st.sampled_from((None, "rs0", "rs1")))
            shown.append(Seen("pod", uid, now, fields=tuple(base.items())))
    now, gone = _end(draw, uid, base, now, shown)
    return shown, (shown[0].at, gone)


def _end(draw, uid, base, now, shown):
    """How it ends, added to ``shown``; (now, when it is gone)."""
    if base.get("node") and draw(st.booleans()):
        now += draw(_gaps)
        base["phase"] = draw(st.sampled_from(("Succeeded", "Failed")))
        stamps = draw(st.sampled_from(((), (-20,), (-500, -10), (0,), (30,))))
        base["finished"] = tuple((now + s) // 10 * 10 for s in stamps)
        if draw(st.booleans()):
            base |= {"disrupted": now // 10 * 10 - 10, "disruption": draw(_reasons)}
        base["listed"] = draw(st.booleans())
        base["ran"] = draw(st.sampled_from(("", "init", "regular")))
        base["written"] = draw(st.sampled_from((None, now // 10 * 10, now // 10 * 10 - 200)))
        base["refusal"] = draw(st.sampled_from((None, None, "OutOfcpu")))
        base["init_finished"] = draw(st.sampled_from((None, None, now // 10 * 10 - 10)))
        stamped = st.integers(-300, 50).map(lambda s: (now + s) // 10 * 10)
        base["evidence"] = tuple(draw(st.lists(stamped, max_size=2)))
        shown.append(Seen("pod", uid, now, fields=tuple(base.items())))
    how = draw(st.sampled_from(("stays", "stamp", "both", "graceful", "no stamp", "unseen")))
    if how == "stays":
        return now, _FOR_EVER
    if how == "graceful":
        now += draw(_gaps)
        deadline = base | {"deletion": now // 10 * 10 + 300, "grace": 30}
        shown.append(Seen("pod", uid, now, fields=tuple(deadline.items())))
    now += draw(_gaps)
    final = base
    if how in ("stamp", "both", "graceful"):
        final = base | {"deletion": now // 10 * 10, "grace": 0}
    if how == "both":
        shown.append(Seen("pod", uid, now, fields=tuple(final.items())))
    if how != "unseen":
        shown.append(Seen("gone", uid, now, fields=tuple(final.items())))
    return now, now


def _delivered(draw, seen, strange):
    """What of it reaches the bus: observations of pods may be lost, and in a strange world they come late or twice."""
    kept = [s for s in seen if s.kind not in ("pod", "gone") or draw(st.integers(0, 5))]
    if not strange:
        # The one watcher's clock is slow; the API server's, which writes the stamps, is right.
        slow = draw(st.sampled_from((0, 0, 0, 7, 300, 36_000, 900_000)))
        return [replace(s, at=s.at - slow) for s in kept]
    # Several watchers: some tell late, the clock of one is an hour slow, and that of another stands at 1970.
    late = st.sampled_from((0, 0, 0, 0, 3, 20, 400, -36_000, -f.START_S * 10))
    kept = [replace(s, at=s.at + draw(late)) for s in kept]
    return kept + [replace(s, at=s.at + draw(late)) for s in kept if not draw(st.integers(0, 4))]


def events_of(seen, *, ordered=True, list_versions=True):
    """The events of observations. ``ordered`` False: versions that cannot be compared."""
    events = []
    for number, s in enumerate(seen):
        version = f"{s.version}" if ordered else f"x{s.version}"
        event = _event(s, version if s.kind != "list" or (ordered and list_versions) else "")
        events += [f.msgspec.structs.replace(e, id=f"{e.id}#{number}") for e in event]
    return events


def _event(s, version):
    at = s.at / 10
    if s.kind == "namespace":
        named = {"team": s["team"], "user": s["user"], "labels": _labels(s)}
        return [f.namespace_observed(s.name, version, at, **named)]
    if s.kind == "node":
        return [f.node_observed(s.name, version, at, model=s["model"])]
    if s.kind == "workload":
        kind = "Deployment" if s.name.startswith("d") else "ReplicaSet"
        above = s["above"] and f.owner(s["above"], "Deployment")
        return [f.workload_observed(s.name, version, at, kind=kind, owner=above, labels=_labels(s))]
    if s.kind == "beat":
        body = SourceHeard(resource="pods")
        return [f.said(body, key="pods", id=f"source.heard/pods/{s.at}", at=at + 0.02)]
    if s.kind == "list":
        # Between two observations, so that it is never at the same moment as one.
        return f.pods_listed(s.has, version, at + 0.05)
    make = f.pod_vanished if s.kind == "gone" else f.pod_observed
    fields = {name: s[name] for name in ("namespace", "team", "user", "node", "phase", "cpu")}
    stamps = (
        "created",
        "scheduled",
        "acknowledged",
        "deletion",
        "disrupted",
        "init_finished",
        "written",
    )
    fields |= {name: _second(s[name]) for name in stamps}
    fields |= {name: s[name] or "" for name in ("phase", "disruption", "ran", "refusal")}
    fields["listed"] = bool(s["listed"])
    for name in ("finished", "evidence"):
        fields[name] = tuple(_second(stamp) for stamp in s[name] or ())
    return [
        make(
            s.name, version, at, name="web", owner=s["owner"] and f.owner(s["owner"]),
            grace_seconds=s["grace"], labels=_labels(s), **fields,
        )
    ]  # fmt: skip


def _labels(s):
    quota, cpu_type = s["quota"]
    key = "quota.scheduling.koordinator.sh/name" if quota == "k" else "biz.group.resource.quota"
    found = {key: quota, "biz.group.resource.quota/cpu-type": cpu_type}
    return {name: value for name, value in found.items() if value is not None}


def _second(tenths):
    return None if tenths is None else tenths / 10


# --- the rules, by brute force -------------------------------------------------------------------


def expected(seen):
    """Runs, segments and sums that follow from everything that was seen, as the tables have them."""
    runs, segments, sums = {}, [], {HOUR: {}, DAY: {}}
    uids = sorted({s.name for s in seen if s.kind in ("pod", "gone")})
    for uid in uids:
        shown = sorted((s for s in seen if s.name == uid and s.kind in ("pod", "gone")), key=_order)
        run, held = _run(uid, shown, seen)
        runs[uid] = run
        segments += [(uid, *piece) for piece in held]
        for start, end, *who in held:
            if end is not None:
                for width, groups in sums.items():
                    _count(groups, width, uid, start, end, who, shown[0], run["workload"])
    return (
        runs,
        segments,
        {w: {g: _closed(s) for g, s in found.items()} for w, found in sums.items()},
    )


def _order(s):
    return s.version


def _run(uid, shown, seen):
    created = min(s["created"] for s in shown) // 10
    bound = [s for s in shown if _node(s) is not None]
    start, is_acknowledged = _start(created * 10, bound)
    floor = created if start is None else start
    end, until, flags = _end_of(uid, shown, seen, floor)
    if "" in map(_node, bound):
        flags = flags | {"no_node"}
    if is_acknowledged:
        flags = flags | {"start_acknowledged"}
    if end is not None and end < floor:
        end, flags = floor, flags | {"clamped"}
    unknown = 0 if end is None else max(0, until - end)
    if unknown and "vanished" not in flags:
        flags = flags | {"gap"}
    above = _links(_top(shown, seen), seen)
    held = [] if start is None else _pieces(bound, above, seen, start, end)
    run = {
        "start_s": start, "end_s": end, "unknown_s": unknown, "flags": sorted(flags),
        "workload": _workload(shown, seen),
    }  # fmt: skip
    return run, held


def _start(created, bound):
    """(second, whether only the kubelet said it)."""
    said = [s["scheduled"] for s in bound if s["scheduled"] is not None]
    said += [s["created"] for s in bound if s["scheduled"] is s["acknowledged"] is None]
    acknowledged = [s["acknowledged"] for s in bound if s["acknowledged"] is not None]
    starts = said or acknowledged
    return (max(created, min(starts)) // 10 if starts else None), bool(starts and not said)


def _node(shown):
    """Where a pod held: "" where it ran and named no node, None where it was not bound."""
    return "" if shown["node"] is None and shown["phase"] == "Running" else shown["node"]


def _time(s):
    """Hundredths of a second: where the event has its time."""
    return s.at * 10 + {"list": 5, "beat": 2}.get(s.kind, 0)


def _end_of(uid, shown, seen, floor):
    """(end, until when it is unknown, flags), seconds."""
    ends, is_observed = [], False
    finished = [s for s in shown if s["phase"] in ("Succeeded", "Failed")]
    if finished:
        found = _stamped_end(finished[0], shown, floor)
        is_observed = not found[0]
        ends += found[0] or [_observed_end(finished[0], uid, shown, seen, floor, found[1])]
    deleted = [s["deletion"] // 10 for s in shown if s["deletion"] is not None and s["grace"] == 0]
    ends += [(second, second, set()) for second in deleted]
    gone = [s for s in shown if s.kind == "gone" and s["grace"] != 0]
    if gone and not is_observed and not deleted:
        ends.append(_observed_end(gone[0], uid, shown, seen, floor, set(), is_delete=True))
    if ends:
        end, _, flags = min(ends, key=lambda known: known[0])
        return end, min(until for _, until, _ in ends), flags
    lists = [s for s in seen if s.kind == "list"]
    evidence = max([*shown, *(s for s in lists if uid in s.has)], key=_order)
    missed = [s for s in lists if s.version > evidence.version]
    if not missed:
        return None, 0, set()
    first = min(missed, key=_order)
    # The source was told of every change then, and of no delete.
    beats = [s.at for s in seen if s.kind == "beat" and s.at <= first.at]
    return max([evidence.at, *beats]) // 10, first.at // 10, {"vanished"}


def _stamped_end(first, shown, floor):
    """([the end by the best stamp], flags): nothing in the list where no stamp can be true."""
    before = [s for s in shown if s.version < first.version and s["disrupted"] is not None]
    ran = {s["ran"] for s in shown} | {"regular" for s in shown if s["phase"] == "Running"}
    reason, asked = first["disruption"], [s["disruption"] for s in before[:1]]
    is_end = reason == "DeletionByPodGC" and not asked
    is_end |= reason == "TerminationByKubelet" and asked in ([], [reason])
    candidates = [
        max(first["finished"] or (), default=None),
        None if "regular" in ran else first["init_finished"],
        first["acknowledged"] if first["refusal"] and not ran & {"regular", "init"} else None,
        first["disrupted"] if is_end else None,
    ]
    flags = set()
    bound = [s for s in shown if _node(s) is not None]
    start, is_acknowledged = _start(first["created"], bound)
    begun = first["created"] if start is None else start * 10
    for stamp in candidates:
        if stamp is None:
            continue
        if stamp < begun - 20:
            flags = flags | {"clock"}
            continue
        if stamp <= first.at:
            return [(stamp // 10, stamp // 10, flags)], flags
        if first.at < (first["created"] if is_acknowledged else begun):
            return [(stamp // 10, stamp // 10, flags | {"clock"})], flags
        return [(first.at // 10, first.at // 10, flags | {"clamped"})], flags
    return [], flags


def _observed_end(one, uid, shown, seen, floor, flags, is_delete=False):
    """The end by an observation: at its time, or at the last proof before it."""
    time, flags = _time(one), flags | {"end_observed"}
    if one["phase"] in ("Succeeded", "Failed") and not is_delete:
        begun = max(one["created"], one["scheduled"] or 0)
        if one["written"] is not None and one["written"] >= begun - 20:
            time = min(time, one["written"] * 10)
    beats = [_time(s) for s in seen if s.kind == "beat" and _time(s) < time]
    lists = [s for s in seen if s.kind == "list" and _time(s) <= time]
    heard = [*beats[-1:], *(_time(s) for s in lists)]
    is_alive = not beats or max(heard) >= time - 7_500
    if is_alive and (is_delete or not one["listed"]):
        return time // 100, time // 100, flags
    stamps = [one[name] for name in ("acknowledged", "scheduled", "disrupted", "init_finished")]
    stamps += one["finished"] or ()
    stamps += one["evidence"] or ()
    before = [
        s
        for s in (*shown, *lists)
        if s.version < one.version
        and (s.kind != "list" or uid in s.has)
        # What was told in the same moment as the delete was told after the silence, too.
        and (s.kind == "list" or not is_delete or _time(s) < time)
    ]
    proofs = [*beats, *map(_time, before), *(s * 10 for s in stamps if s is not None)]
    last = max([floor * 100, *(t for t in proofs if t <= time)])
    return min(last, time) // 100, time // 100, flags


def _pieces(bound, above, seen, start, end):
    """[from, to, amounts and names …] from one moment at which anything may change to the next."""
    names = {s.name for s in seen if s.kind == "namespace"} & {bound[0]["namespace"]}
    spaces = sorted((s for s in seen if s.kind == "namespace" and s.name in names), key=_order)
    nodes = sorted((s for s in seen if s.kind == "node"), key=_order)
    moments = {s.at // 10 for s in (*bound, *above, *spaces, *nodes)}
    moments = sorted({start} | {m for m in moments if m > start and (end is None or m < end)})
    if end is not None and end <= start:
        return []
    pieces = []
    for place, second in enumerate(moments):
        following = moments[place + 1] if place + 1 < len(moments) else end
        pod, space = _at(bound, second), _at(spaces, second)
        node = _at(_kept([n for n in nodes if n.name == _node(pod)]), second)
        what = (
            pod["cpu"] * 1000,
            pod["team"] or (space and space["team"]) or "unassigned",
            pod["user"] or (space and space["user"]) or "unassigned",
            _node(pod),
            node["model"] if node else None,
            *_quota(_at(above, second), pod, space),
        )
        if pieces and pieces[-1][2:] == what:
            pieces[-1] = (pieces[-1][0], following, *what)
        else:
            pieces.append((second, following, *what))
    return pieces


def _kept(nodes):
    """Observations of a node; a label that is away keeps its last value."""
    kept, model = [], None
    for n in nodes:
        model = n["model"] or model
        kept.append(replace(n, fields=(("model", model),)))
    return kept


def _at(observations, second):
    """The last observation at or before the end of a second; the first one holds for all time before."""
    past = [s for s in observations if s.at // 10 <= second]
    return past[-1] if past else observations[0] if observations else None


def _quota(*objects):
    """(quota, cpu type): each by the first of the objects that names it; types only with a quota."""
    named = [s["quota"] for s in objects if s is not None]
    names = sorted((name for name, _ in named if name), key=lambda name: name == "k")
    quota = names[0] if names else ""
    cpu_type = next((name for _, name in named if name is not None), None)
    return quota, (cpu_type if quota else None) or ""


def _links(name, seen):
    return sorted((s for s in seen if s.kind == "workload" and s.name == name), key=_order)


def _top(shown, seen):
    owners = [s["owner"] for s in shown if s["owner"] is not None]
    name = owners[-1] if owners else None
    while True:
        links = _links(name, seen)
        if links and shown[-1]["namespace"] != "ns":
            # Workloads are in this namespace, and answer for nothing in another.
            return None
        if not links or links[-1]["above"] is None:
            return name
        name = links[-1]["above"]


def _workload(shown, seen):
    name = _top(shown, seen)
    if name is None:
        return "Pod/web"
    return f"ReplicaSet/{name}" if name.startswith("rs") else f"Deployment/{name}"


def _count(groups, width, uid, start, end, who, pod, workload):
    cpu, team, user, _, model, *_ = who
    first = (start + f.START_S) // width
    last = (end + f.START_S - 1) // width
    for period in range(first, last + 1):
        begin = max(start + f.START_S, period * width)
        seconds = min(end + f.START_S, (period + 1) * width) - begin
        group = (period * width, team, user, pod["namespace"], workload, model or "")
        sums = groups.setdefault(group, [0, 0, set()])
        sums[0] += cpu * seconds
        sums[1] += seconds
        sums[2].add(uid)


def _closed(sums):
    return (sums[0], sums[1], len(sums[2]))
