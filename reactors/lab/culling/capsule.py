"""A capsule: a policy, a slice of history, and the policy's decisions on it, as events of one file.

The first event is the policy, then comes the history, and last its expected decisions; the first and the last ones have the source
``capsule``. So a capsule is read and bounded like every recorded history.

Source: docs/lab.md; docs/history.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
from pydantic import ValidationError

from bus.clock import format_stamp
from bus.envelope import Event
from bus.errors import BursarError, EnvelopeError
from bus.events import VOCABULARY
from bus.events.decisions import Decision
from bus.events.policies import PolicyChanged
from bus.events.vocabulary import read
from reactors.culling.policy import CullingPolicy
from reactors.culling.state import NAME
from reactors.engine.policies import policy_changed
from reactors.engine.replica import decision_event
from reactors.lab.culling.trial import Lab
from reactors.lab.pods import nobody
from reactors.lab.rules import RULES

SOURCE = "capsule"

#: A capsule expects at most so many decisions. They are in memory until its history ends.
MOST_EXPECTED = 1_000_000


class CapsuleLine(msgspec.Struct, frozen=True, order=True):
    """A decision as a capsule compares it, with every version of the rules. ``at`` is RFC 3339."""

    at: str
    verb: str
    kind: str
    namespace: str
    name: str
    reason: str


class Ran(msgspec.Struct, frozen=True):
    """The result of a capsule's history: decisions as expected, decisions no longer made, and new ones."""

    events: int
    same: int
    missing: tuple[CapsuleLine, ...]
    new: tuple[CapsuleLine, ...]

    @property
    def is_as_expected(self) -> bool:
        """Whether all expected decisions were made, and no others."""
        return not self.missing and not self.new


def capsule(cluster: str, policy: CullingPolicy, history: Iterable[Event]) -> Iterator[Event]:
    """The events of a capsule. Reads ``history`` once."""
    fact = policy_changed(NAME, "on", policy, author=SOURCE)
    yield fact.event(cluster=cluster, key=NAME, id=f"{SOURCE}/policy", source=SOURCE, time_us=0)
    lab = Lab(cluster, [(policy, "on")], earlier=nobody, rules=RULES[:1])
    for event in history:
        lab.play([event])
        yield event
    for one in lab.end()[0][0].decided:
        made = decision_event(one.decision, cluster)
        yield msgspec.structs.replace(made, source=SOURCE)


def ran(events: Iterable[Event], policy: CullingPolicy | None = None) -> Ran:
    """Decide a capsule's history again, by its own policy or by another one. Raises BursarError for a file without a capsule."""
    rest = iter(events)
    first = next(rest, None)
    if first is None or first.source != SOURCE or first.type != PolicyChanged.wire_type:
        raise BursarError("it is no capsule: it does not begin with a policy")
    try:
        own = CullingPolicy.model_validate(PolicyChanged.read(first).policy)
    except (EnvelopeError, ValidationError):
        raise BursarError("the capsule's policy cannot be read") from None
    lab = Lab(first.cluster, [(policy or own, "on")], earlier=nobody, rules=RULES[:1])
    expected: list[CapsuleLine] = []
    count = 0
    for event in rest:
        if event.source == SOURCE:
            if len(expected) >= MOST_EXPECTED:
                raise BursarError(f"the capsule expects more than {MOST_EXPECTED:,} decisions")
            expected.append(_expected(event))
        elif event.cluster == first.cluster:
            count += 1
            lab.play([event])
    found = [_line(one.decision) for one in lab.end()[0][0].decided]
    missing, new = _without(expected, found), _without(found, expected)
    return Ran(count, len(found) - len(new), tuple(missing), tuple(new))


def _expected(event: Event) -> CapsuleLine:
    try:
        fact = read(event, VOCABULARY)
    except EnvelopeError:
        fact = None
    if not isinstance(fact, Decision):
        raise BursarError("the capsule expects what is no decision")
    return _line(fact)


def _line(decision: Decision) -> CapsuleLine:
    target = decision.target
    verb = decision.wire_type.removeprefix("decision.")
    at = format_stamp(decision.at_us)
    return CapsuleLine(at, verb, target.kind, target.namespace, target.name, decision.reason)


def _without(lines: list[CapsuleLine], others: list[CapsuleLine]) -> list[CapsuleLine]:
    """The lines missing among the others; each of the others stands for one."""
    return sorted((Counter(lines) - Counter(others)).elements())
