"""Steps of ``bursar why``: the waits of workloads, and the causes of their release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from bus.clock import SECOND_US, format_stamp
from bus.events.admissions import AdmissionReleased, Deficit
from deploy.cli.rendering.words import duration, line_ahead
from projections.quota_trees.queries import Select, archived
from projections.waits import waits

if TYPE_CHECKING:
    from reactors.queue.explanation import WaitStep
    from reactors.queue.outlook import Outlook

#: Decisions of a queue to have something wait again, by their reasons, and the steps they are told as.
BACK = {"returning": "stop", "returned": "stopped"}


def waited(select: Select, cluster: str, name: str, decided: Iterable[str]) -> dict[str, str]:
    """Past and present waits under a name (NAMESPACE/NAME or uid), by a decision's id, or among the uids ``decided``: uid to
    "Kind namespace/name".
    """
    columns = waits.c
    path, _, last = name.rpartition("/")
    namespace = path.rpartition("/")[2]
    named = sa.and_(columns.namespace == namespace, columns.name == last)
    uids = [name, *decided, *_sent_back(select, cluster, name)]
    query = sa.select(columns.uid, columns.kind, columns.namespace, columns.name).where(
        columns.cluster == cluster,
        columns.created_us.is_not(None),
        sa.or_(columns.waiting == 1, columns.quota != ""),
        sa.or_(columns.uid.in_(uids), named if namespace else sa.false()),
    )
    return {uid: f"{kind} {place}/{called}" for uid, kind, place, called in select(query)}


def _sent_back(select: Select, cluster: str, id: str) -> list[str]:
    """Workloads returned to their queue by a decision, by uid."""
    if "/queue/" not in f"/{id}":
        return []
    found = []
    for part in archived(select, cluster, (AdmissionReleased.wire_type,)):
        for event in part:
            if event.id == id:
                found += [one.uid for one in AdmissionReleased.read(event).releases]
    return found


def steps(
    select: Select, cluster: str, named: dict[str, str], now_us: int, decided: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The history of each of ``named``, and the current needs of those that still wait at ``now_us``.

    A release that is among the steps ``decided`` already is shown there, with its cause.
    """
    if not named:
        return
    from deploy.queries.queues import explanations

    turns, waiting = explanations(select, cluster, named, now_us)
    releases = {
        (row["sequence"], row["about"]): row for row in decided if row["reason"] == "released"
    }
    for turn in turns:
        known = releases.get((turn.event.sequence, named[turn.uid]))
        if turn.what == "released" and known is not None:
            known["numbers"] = "; ".join((known["numbers"], *_numbers(turn)))
        else:
            yield _step(turn, named[turn.uid])
    for one in waiting:
        yield _now(one, named[one.waiting.uid], now_us)


def _step(turn: WaitStep, about: str) -> dict[str, Any]:
    answer, event = turn.answer or turn.refused, turn.event
    reason = turn.order.reason if turn.order is not None else turn.reason
    return {
        "sequence": event.sequence, "time": format_stamp(event.time_us), "step": _named(turn),
        "about": about, "quota": answer.quota if answer is not None else "", "reason": reason,
        "numbers": "; ".join(_numbers(turn)),
        "based_on": turn.cause.event.sequence if turn.cause is not None else None, "id": "",
    }  # fmt: skip


def _named(turn: WaitStep) -> str:
    return turn.order.action if turn.order is not None else turn.what


def _numbers(turn: WaitStep) -> list[str]:
    if turn.order is not None:
        priority = turn.order.priority
        to = "" if turn.order.action != "move" else f", to priority {priority}"
        if turn.order.action == "move" and priority is None:
            to = ", to its class's priority"
        return [f"by {turn.order.author}{to}", f"{_place(turn.before)}, now {_place(turn.place)}"]
    if turn.what == "room" and turn.refused is not None and turn.answer is not None:
        givers = [f"given back by {', '.join(turn.givers)}"] if turn.givers else []
        return [*givers, *(f"until then {missing(one)}" for one in turn.refused.deficits)]
    if turn.what == "released":
        passed = [f"before {turn.passed}, which waits"] if turn.passed else []
        if turn.cause is None:
            return [*passed, "there was room for it since it was held"]
        return [*passed, f"because of event {turn.cause.event.sequence}, {turn.cause.reason}"]
    if turn.what == "held":
        return _held(turn)
    return [missing(one) for one in turn.answer.deficits] if turn.answer is not None else []


def _held(turn: WaitStep) -> list[str]:
    if turn.reason == "returned" or turn.answer is None:
        return ["it has stopped, and is to wait again"]
    created = f"created suspended at {format_stamp(turn.created_us)}"
    has_room = turn.answer.verdict == "admitted"
    room = [f"the quota has room; it waits for {line_ahead(turn.place)}"] if has_room else []
    return [created, _place(turn.place), *map(missing, turn.answer.deficits), *room]


def _now(one: Outlook, about: str, now_us: int) -> dict[str, Any]:
    waiting, answer = one.waiting, one.answer
    waited_s = max(now_us - waiting.created_us, 0) // SECOND_US
    starts = f"starts by {format_stamp(one.starts_us)}" if one.starts_us is not None else ""
    since = f"for {duration(waited_s)}" if waited_s else ""
    numbers = [since, _place(one.place), *map(missing, answer.deficits), starts]
    fits = answer.verdict == "admitted" and one.place
    turn = line_ahead(one.place) if fits else answer.reason
    return {
        "sequence": None, "time": format_stamp(now_us), "step": "waits", "about": about,
        "quota": answer.quota, "reason": "held by a person" if waiting.is_stopped else turn,
        "numbers": "; ".join(text for text in numbers if text), "based_on": None, "id": "",
    }  # fmt: skip


def _place(place: int) -> str:
    return f"place {place}" if place else "no place"


def missing(deficit: Deficit) -> str:
    """The reason why a key refuses, in words: the use, the request, the limit."""
    key = deficit.key
    if deficit.containers:
        return f"must specify {key} for: {','.join(deficit.containers)}"
    # Questions about objects without a deficit should not pay for the import.
    from bus.kube.crds.keys import key_text

    limit, used = key_text(key, deficit.limit), key_text(key, deficit.used)
    return f"{key}: {used} used + {key_text(key, deficit.asked)} asked > {limit}"
