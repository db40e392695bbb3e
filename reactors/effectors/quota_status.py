"""Writes a quota's state into its object's status: for `kubectl get`, and for users without other access.

The status is for display and is never read back: every figure comes from the ledger, so the next write repairs a lost one.
A status with only a new time is not written, as each write is an event for every watcher of quotas.

``content`` and ``body`` are pure. The writer is the adapter to the object: it spaces writes, tries conflicts again, and reports
the result of each.

Source: Kubernetes API conventions, "Spec and Status".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Literal, Protocol

import msgspec

from bus.clock import SECOND_US, format_stamp
from bus.crashpoints import crashpoint
from bus.errors import ClusterUnavailableError, ConflictError, NotFoundError, RequestRefusedError
from bus.kube.crds import keys
from bus.kube.crds.quotas import API_VERSION, KIND, PATH

Json = dict[str, Any]
Result = Literal["written", "unchanged", "gone", "refused"]

#: Keys in one column of `kubectl get`; the others are counted.
SHOWN_KEYS = 3
#: A forecast beyond this second (year 9999) is none.
LAST_S = 253_402_300_799
#: The API server's refusal of a forecast, if its CustomResourceDefinition is of an earlier release.
NO_FORECAST = ".status.forecast: field not declared"


class Condition(msgspec.Struct, frozen=True):
    """One aspect of a quota's state, e.g. ``Exhausted``; ``since_s`` is when its status became this (seconds UTC)."""

    type: str
    status: Literal["True", "False", "Unknown"]
    since_s: int
    reason: str = ""
    message: str = ""


class BizGroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The new status of one BizGroupResourceQuota. Amounts in the measures of :class:`bus.events.quotas.QuotaObserved`.

    ``hard`` and ``used`` by quota key, budgets with ``cash/``; ``self_used`` by quota key, ``runtime`` by resource name,
    ``budget_left`` by key without ``cash/`` (below 0 when overspent).
    """

    name: str
    #: The uid of the object; a later object of the same name is left alone.
    uid: str
    hard: Mapping[str, int] = {}
    used: Mapping[str, int] = {}
    self_used: Mapping[str, int] = {}
    runtime: Mapping[str, int] = {}
    budget_left: Mapping[str, int] = {}
    #: The time when the first budget was spent, or will be at the current use (seconds UTC); None = not in this period.
    exhausts_s: int | None = None
    #: By quota key: when a budget will be used up or a limit reached, as a sentence.
    forecast: Mapping[str, str] = {}
    conditions: tuple[Condition, ...] = ()
    #: The object's metadata.generation behind these figures.
    generation: int = 0
    #: The ledger's moment (seconds UTC) and the last sequence it had folded.
    moment_s: int
    observed_sequence: int

    @property
    def path(self) -> str:
        """Where the API server serves it."""
        return f"{PATH}/{self.name}"

    def content(self) -> Json:
        """See :func:`content`."""
        return content(self)

    def writes(self, found: Json) -> list[tuple[str, Json]]:
        """The bodies to apply to the object as read, each with its path."""
        version = found["metadata"]["resourceVersion"]
        return [(f"{self.path}/status", body(self, version))]


class StatusReport(Protocol):
    """A status of a quota of either kind."""

    @property
    def name(self) -> str:
        """Of the quota."""
        ...

    @property
    def uid(self) -> str:
        """The uid of its object."""
        ...

    @property
    def path(self) -> str:
        """Where the API server serves it."""
        ...

    def content(self) -> Json:
        """The status for comparison: two equal ones need one write."""
        ...

    def writes(self, found: Json) -> list[tuple[str, Json]]:
        """The bodies to apply, one after the other, to the object as read, each with its path."""
        ...


class WriteOutcome(msgspec.Struct, frozen=True):
    """The result of a write. ``gone``: the object does not exist any more; ``refused``: the API server never accepts it,
    with its ``message``.
    """

    name: str
    result: Result
    message: str = ""


class StatusClient(Protocol):
    """The needed part of :class:`bus.kube.client.KubeCluster`, with its errors."""

    async def get(self, path: str) -> Json:
        """The object at ``path``."""
        ...

    async def apply(self, path: str, body: Mapping[str, Any]) -> Json:
        """Server-side apply of ``body`` at ``path``."""
        ...


def content(status: BizGroupStatus) -> Json:
    """The status without its time: two equal ones need one write."""
    found: Json = {
        "hard": _texts(status.hard),
        "used": _texts(status.used),
        "selfUsed": _texts(status.self_used),
        "runtime": {
            name: keys.resource_text(name, amount)
            for name, amount in sorted(status.runtime.items())
        },
        "budgetLeft": _texts(_cash(status.budget_left)),
        "exhaustsAt": _stamp(status.exhausts_s),
        "conditions": [_condition(one, status.generation) for one in status.conditions],
    }
    if status.forecast:
        found["forecast"] = dict(status.forecast)
    found["shown"] = {
        "hard": _short(_held(found["hard"])),
        "used": _short(_held(found["used"])),
        "budgetLeft": _short(found["budgetLeft"]),
    }
    return found


def body(status: BizGroupStatus, version: str) -> Json:
    """The object to apply at ``…/<name>/status``, if it is still in ``version``.

    The status of a custom object takes no uid as precondition: the API server overwrites it. So the
    version of an object with a checked uid stands for both.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": status.name, "resourceVersion": version},
        "status": {
            **content(status),
            "lastReconcileTime": _stamp(status.moment_s),
            "observedSequence": status.observed_sequence,
        },
    }


def _cash(amounts: Mapping[str, int]) -> dict[str, int]:
    return {keys.CASH + key: amount for key, amount in amounts.items()}


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {key: keys.key_text(key, amount) for key, amount in sorted(amounts.items())}


def _held(texts: Mapping[str, str]) -> dict[str, str]:
    """Without budgets: they have a column of their own."""
    return {key: text for key, text in texts.items() if not key.startswith(keys.CASH)}


def _short(texts: Mapping[str, str]) -> str:
    """``limits.cpu: 10, limits.memory: 64Gi +2``: budgets without their prefix."""
    shown = [f"{key.removeprefix(keys.CASH)}: {text}" for key, text in texts.items()]
    more = f" +{len(shown) - SHOWN_KEYS}" if len(shown) > SHOWN_KEYS else ""
    return ", ".join(shown[:SHOWN_KEYS]) + more


def _stamp(second: int | None) -> str:
    return "" if second is None or second > LAST_S else format_stamp(second * SECOND_US)


def _condition(one: Condition, generation: int) -> Json:
    return {
        "type": one.type,
        "status": one.status,
        "reason": one.reason,
        "message": one.message,
        "lastTransitionTime": _stamp(one.since_s),
        "observedGeneration": generation,
    }


class StatusWriter:
    """Writes statuses one after another, at most ``per_second``. One for a cluster."""

    def __init__(
        self,
        cluster: StatusClient,
        *,
        per_second: float = 10.0,
        attempts: int = 4,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._apart_seconds = 1.0 / per_second
        self._attempts = attempts
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._next_at = 0.0
        #: uid to the last written status.
        self._written: dict[str, Json] = {}
        self._takes_forecasts = True

    def trouble(self) -> Iterator[str]:
        """The missing parts of statuses, in a sentence for people."""
        if not self._takes_forecasts:
            yield (
                f"the status of quotas has no forecasts: the CustomResourceDefinition of {KIND} is that of an earlier release; "
                "apply deploy/manifests/crds"
            )

    async def write(self, status: StatusReport) -> WriteOutcome:
        """Make the object say ``status``, unless it was made to before.

        Raises ClusterUnavailableError when the API server stays away, PermissionDeniedError: the next status is written
        in full.
        """
        says = status.content()
        if self._written.get(status.uid) == says:
            return WriteOutcome(status.name, "unchanged")
        # Until the outcome is known the object may say the one or the other.
        self._written.pop(status.uid, None)
        async with self._turn:
            outcome = await self._applied(status)
        if outcome.result == "written":
            self._written[status.uid] = says
        return outcome

    async def _applied(self, status: StatusReport) -> WriteOutcome:
        for attempt in range(1, self._attempts + 1):
            await self._spaced()
            try:
                found = await self._cluster.get(status.path)
                if found["metadata"]["uid"] != status.uid:
                    return WriteOutcome(status.name, "gone")
                crashpoint("quota_status.before_apply")
                await self._apply(status, found)
                crashpoint("quota_status.after_apply")
                if isinstance(status, BizGroupStatus) and status.forecast:
                    self._takes_forecasts = True
                return WriteOutcome(status.name, "written")
            except NotFoundError:
                return WriteOutcome(status.name, "gone")
            except RequestRefusedError as error:
                if (
                    isinstance(status, BizGroupStatus)
                    and status.forecast
                    and NO_FORECAST in error.message
                ):
                    # The next status has its forecast again: the kind may be applied meanwhile.
                    self._takes_forecasts = False
                    return await self._applied(msgspec.structs.replace(status, forecast={}))
                return WriteOutcome(status.name, "refused", error.message)
            except ConflictError as error:
                failure: ConflictError | ClusterUnavailableError = error
            except ClusterUnavailableError as error:
                failure = error
                # The server says how long; a conflict is tried again at once, so this is no back-off.
                if attempt < self._attempts:
                    await self._sleep(error.delay_seconds)
        if isinstance(failure, ConflictError):
            raise ClusterUnavailableError(
                "a status meets conflicts again and again", quota=status.name
            ) from failure
        raise failure

    async def _apply(self, status: StatusReport, found: Json) -> None:
        for path, wanted in status.writes(found):
            if found.get("status") == wanted["status"] and path.endswith("/status"):
                # The object has it already: it has no such subresource, or nothing changed.
                continue
            version = found["metadata"]["resourceVersion"]
            metadata = {**wanted["metadata"], "resourceVersion": version}
            found = await self._cluster.apply(path, {**wanted, "metadata": metadata})

    async def _spaced(self) -> None:
        loop = asyncio.get_running_loop()
        wait = self._next_at - loop.time()
        if wait > 0:
            await self._sleep(wait)
        self._next_at = loop.time() + self._apart_seconds
