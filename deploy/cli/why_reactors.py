"""What reactors decided about an object, and what became of it: steps of ``bursar why``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bus.clock import SECOND_US, format_stamp
from bus.envelope import Event
from bus.events import VOCABULARY
from bus.events.decisions import Decision, EffectSettled, RestoreAsked
from bus.events.vocabulary import read
from projections.admissions.queries import Select, archived

_TYPES = tuple(
    name
    for name, fact in VOCABULARY.items()
    if issubclass(fact, Decision | EffectSettled | RestoreAsked)
)


def steps(select: Select, cluster: str, name: str) -> Iterator[dict[str, Any]]:
    """Decisions with this id, or about this object (NAMESPACE/NAME or uid), their outcomes, and who wanted them undone."""
    about: dict[str, str] = {}
    for part in archived(select, cluster, _TYPES):
        for event in part:
            fact = read(event, VOCABULARY)
            if isinstance(fact, Decision):
                target = fact.target
                known = about.get(fact.key)
                if known or _is_meant(fact, name):
                    about[fact.id] = known or f"{target.kind} {target.namespace}/{target.name}"
                    yield _decided(event, fact, about[fact.id])
            elif isinstance(fact, EffectSettled) and fact.decision in about:
                yield _step(event, fact.result, about[fact.decision], fact.message, "")
            elif isinstance(fact, RestoreAsked) and fact.decision in about:
                yield _step(event, "undo asked", about[fact.decision], f"by {fact.author}", "")


def _is_meant(decision: Decision, name: str) -> bool:
    target = decision.target
    path = f"{target.namespace}/{target.name}"
    return name in (decision.id, decision.key, target.uid, path, f"{target.kind}/{path}")


def _decided(event: Event, decision: Decision, about: str) -> dict[str, Any]:
    verb = event.type.removeprefix("decision.")
    numbers = "; ".join(_number(name, value) for name, value in decision.numbers.items())
    shadow = ", in shadow: nothing is done" if decision.is_shadow else ""
    step = _step(event, verb, about, decision.reason, f"{numbers}{shadow}")
    return step | {"quota": "", "based_on": decision.trigger, "id": decision.id}


def _number(name: str, value: int) -> str:
    if name.endswith("_us"):
        whole = value // SECOND_US * SECOND_US
        return f"{name.removesuffix('_us')} {format_stamp(whole) if value else 'never'}"
    return f"{name} {value}"


def _step(event: Event, step: str, about: str, reason: str, numbers: str) -> dict[str, Any]:
    return {
        "sequence": event.sequence,
        "time": format_stamp(event.time_us),
        "step": step,
        "about": about,
        "quota": "",
        "reason": reason,
        "numbers": numbers,
        "based_on": None,
        "id": "",
    }
