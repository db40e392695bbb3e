"""Decisions and what became of them. A decision is born here, in the history; nothing is done without one.

All decisions of a cluster are one line of events under ``bursar.<cluster>.decision.*.*``, appended with the expected
last sequence of that subject: each stands on all before it, whichever process made it. Outcomes are another line.

Source: docs/architecture.md; docs/reliability.md.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from bus.events.vocabulary import Fact

#: ``done``: also where it was found done already. ``stale``: newer knowledge, or too late. ``gone``: there is no such object
#: any more. ``refused``: it will never be taken. ``shadow``: by now nothing may be done.
Result = Literal["done", "refused", "stale", "gone", "shadow"]


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """The one object that a decision is about; a namesake with another uid is another object."""

    kind: str
    namespace: str
    name: str
    uid: str
    #: Where its pods run, for limits per node. "" = nowhere, or unknown.
    node: str = ""


class Decision(Fact, frozen=True, kw_only=True):
    """What every decision holds. Key of the event: ``key``; its id: ``id``.

    ``id`` is derived from reactor, trigger and key, so that making it twice is making it once. ``trigger`` is also the
    sequence it is based on: what was known is the history up to there, and the decisions that stand before this one.
    """

    #: Takes something away from somebody: interlocks and limits hold it.
    is_destructive: ClassVar[bool] = False
    #: A person asked for exactly this: neither pause nor shadow mode hold it.
    is_asked: ClassVar[bool] = False

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    reactor: str
    #: Version of the reactor's rules.
    rules: int
    key: str
    trigger: int
    #: The trigger's time, microseconds UTC.
    at_us: int
    #: Digest of the policy.
    policy: str
    is_shadow: bool
    target: Target
    #: Which quota it is about; "" = none.
    quota: str = ""
    #: A stable token.
    reason: str
    #: The numbers behind it, by name with unit.
    numbers: dict[str, int] = {}
    #: After this nothing may be done any more: what it rests on is too old by then.
    expires_us: int


class Warn(Decision, frozen=True, kw_only=True):
    """Tell the owner of a notebook that it will be stopped, unless it is used."""

    wire_type: ClassVar[str] = "decision.warn"


class Withdraw(Decision, frozen=True, kw_only=True):
    """Take back a warning."""

    wire_type: ClassVar[str] = "decision.withdraw"


class Cull(Decision, frozen=True, kw_only=True):
    """Stop an idle notebook, so that it can be started again."""

    wire_type: ClassVar[str] = "decision.cull"
    is_destructive: ClassVar[bool] = True


class Evict(Decision, frozen=True, kw_only=True):
    """End a pod, by the Eviction subresource: its quota has to give back what the pod holds. Key: the pod's uid."""

    wire_type: ClassVar[str] = "decision.evict"
    is_destructive: ClassVar[bool] = True

    #: Kind, namespace and name of the workload of the same quota that room is made for; "" = nobody.
    beneficiary: str = ""


class Restore(Decision, frozen=True, kw_only=True):
    """Give back what a cull stopped. ``key`` is the cull's id."""

    wire_type: ClassVar[str] = "decision.restore"
    is_asked: ClassVar[bool] = True


class RestoreAsked(Fact, frozen=True, kw_only=True):
    """A person wants a cull undone. Key: the decision's id."""

    wire_type: ClassVar[str] = "restore.asked"

    decision: str
    author: str


class NoticeSettled(Fact, frozen=True, kw_only=True):
    """Whether somebody outside could be told of a warning; said once for each, where there is an address. Key: the decision's id.

    The warning stands either way.
    """

    wire_type: ClassVar[str] = "notice.settled"

    decision: str
    reactor: str
    result: Literal["told", "failed"]
    #: Why not, a token: ``http_500``, ``redirected``, ``timed_out``, ``no_connection``.
    message: str = ""
    attempts: int = 1


class EffectSettled(Fact, frozen=True, kw_only=True):
    """What became of a decision; said once for each that is not a shadow. Key: the decision's id."""

    wire_type: ClassVar[str] = "effect.settled"

    decision: str
    reactor: str
    result: Result
    #: A token or the API server's words.
    message: str = ""
