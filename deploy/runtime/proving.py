"""ADAPTER: proves through the API server that reviews arrive: at the start, and periodically while the webhook is registered.

A webhook configuration with a dead address looks exactly like a working one: with failurePolicy Ignore
every request passes silently. So Bursar asks the API server itself for a dry run (:mod:`reactors.webhook.proof`).

Source: ``docs/webhook.md``, "Does it enforce?".
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from bus.clock import SECOND_US, Clock, format_stamp
from bus.errors import (
    BursarError,
    ClusterUnavailableError,
    NotFoundError,
    PermissionDeniedError,
)
from bus.metrics import Metric, Sample
from deploy.errors import UnprovenWebhookError
from deploy.runtime.undecided import Undecided
from deploy.settings.admission import AdmissionSettings
from reactors.webhook import proof

#: Between two proofs once one succeeded, and between two attempts until then.
PERIOD_SECONDS = 60.0
RETRY_SECONDS = 1.0
#: How long the start waits for the first proof: API servers hear of a configuration within a second.
START_SECONDS = 30.0

NOT_REVIEWED = "a request passed without a review"

_log = logging.getLogger(__name__)


class ProofClient(Protocol):
    """The needed part of :class:`bus.kube.client.KubeCluster`, with its errors."""

    async def create(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Any:
        """A new object; with ``dry_run`` everything is done but the writing."""


class Proof(msgspec.Struct):
    """The known state of the way from the API server to the webhook."""

    mode: str
    address: str
    #: When a review last arrived; 0 = never yet.
    proven_us: int = 0
    #: Why none arrives now; "" = all is well, or not asked yet.
    problem: str = ""
    #: When the first of its certificates ends; 0 = not known.
    ends_us: int = 0
    #: This process's answers without a decision.
    undecided: Undecided = msgspec.field(default_factory=Undecided)


class Prover:
    """Requests dry-run reviews of the webhook registered at one cluster."""

    def __init__(self, cluster: ProofClient, wanted: AdmissionSettings, clock: Clock) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._clock = clock
        self.proof = Proof(wanted.mode, wanted.address)
        #: The time of the first request, by the loop's clock, and the last logged problem.
        self._begun = math.inf
        self._told = ""
        #: The obstacle to registering the webhook, as its registrar reports it; "" = none.
        self.registration: Callable[[], str] = str
        #: Whether an administrator has to register it first.
        self.waits: Callable[[], bool] = bool
        #: When each of its certificates ends, by file.
        self.ends: Callable[[], Mapping[str, int]] = dict

    async def begin(self, seconds: float = START_SECONDS) -> None:
        """In ``enforce``, return when a review arrived. Raises UnprovenWebhookError if none does.

        An unreachable API server proves nothing, nor does a webhook that an administrator has still to register. Then
        the start goes on, as in other modes, and :meth:`run` asks again.
        """
        if self._wanted.mode != "enforce":
            return
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while not await self.prove() and not self.waits() and loop.time() < ends:
            await asyncio.sleep(RETRY_SECONDS)
        found = self.proof
        if found.proven_us or self._is_away or self.waits():
            return
        raise UnprovenWebhookError(address=found.address, problem=found.problem, do=self._advice())

    async def run(self) -> None:
        """Ask again and again, until cancelled."""
        soon = int(START_SECONDS / RETRY_SECONDS)
        while True:
            is_new = not self.proof.proven_us and soon > 0
            soon -= 1
            is_soon = is_new or self._is_away or self.waits()
            await asyncio.sleep(RETRY_SECONDS if is_soon else PERIOD_SECONDS)
            await self.prove()

    async def prove(self) -> bool:
        """Ask once; whether the review arrived."""
        self._begun = min(self._begun, asyncio.get_running_loop().time())
        problem = self._expired() or await self._problem()
        is_news = problem not in ("", self._told) and not self._is_early(problem)
        if is_news:
            _log.warning("no review arrives at %s: %s", self.proof.address, problem)
        if is_news or not problem:
            self._told = problem
        self.proof.problem = problem
        if not problem:
            self.proof.proven_us = self._clock.now_us()
        return not problem

    def _is_early(self, problem: str) -> bool:
        """Whether the API server may not have put the registration in force yet, as at every start."""
        since = asyncio.get_running_loop().time() - self._begun
        return problem == NOT_REVIEWED and not self.proof.proven_us and since < START_SECONDS

    def _expired(self) -> str:
        """The expired certificate. An API server may still keep an old connection open without showing it."""
        ends = self.ends()
        self.proof.ends_us = min(ends.values(), default=0)
        self._is_away = False
        for file, us in ends.items():
            if us <= self._clock.now_us():
                stamp = format_stamp(us // SECOND_US * SECOND_US)
                return f"the certificate of {file} ended at {stamp}; a new file is used without a restart"
        return ""

    async def _problem(self) -> str:
        self._is_away = False
        if self.registration():
            return f"the webhook is not registered: {self.registration()}"
        token = secrets.token_hex(8)
        namespace = self._wanted.probe_namespace
        try:
            await self._cluster.create(proof.path(namespace), proof.probe(token), dry_run=True)
        except PermissionDeniedError as error:
            if proof.arrival_text(token) in str(error):
                return ""
            if "exceeded quota" in str(error):
                return NOT_REVIEWED
            return f"the dry run is not allowed, apply rbac/registrar.yaml: {error}"
        except NotFoundError:
            return f"there is no namespace {namespace}: apply rbac/registrar.yaml"
        except ClusterUnavailableError as error:
            self._is_away = "failed calling webhook" not in str(error)
            return str(error)
        except BursarError as error:
            return str(error)
        return NOT_REVIEWED

    _is_away = False

    def _advice(self) -> str:
        way = (
            "check that the API server reaches this address (admission.url)"
            if self._wanted.url
            else f"is there a Service {self._wanted.service} in {self._wanted.namespace} that leads here "
            "(deploy/manifests/service.yaml)? Outside of the cluster set admission.url to https://HOST:PORT of this machine"
        )
        return f"{way}; docs/webhook.md shows both ways"

    def metrics(self) -> Iterator[Metric]:
        """Whether reviews arrive."""
        meaning = "1 where the last dry run through the API server was answered by this webhook."
        value = int(bool(self.proof.proven_us) and not self.proof.problem)
        yield Metric("bursar_admission_reviews_arrive", "gauge", meaning, [Sample(value)])
