"""ADAPTER: traces of reviews, and of decisions to their effects, to an OpenTelemetry collector. Off unless an address is set.

A span is made after its event: nothing waits for the collector, and nothing depends on it. Spans that
cannot be sent in time are dropped. The ids of traces follow from the ids of reviews and decisions. So a known id leads to its
trace, and two processes share one trace for one decision.

Users, labels, annotations and contents of objects are never among the attributes.

Source: OpenTelemetry specification (trace SDK; OTLP); docs/operating.md.
"""

from __future__ import annotations

import asyncio
import platform
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

from bus.clock import Clock, SystemClock
from bus.events.decisions import Decision, Result
from deploy.errors import SettingsError
from deploy.settings.shape import Settings
from reactors.engine.adapters import Effector
from reactors.webhook.review import Answer, Review

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

Attributes = Mapping[str, str | int | bool]

#: Seconds for one request to the collector, and for the last ones when the process ends.
REQUEST_SECONDS, END_SECONDS = 5.0, 2.0
#: Waiting spans; those beyond are dropped.
QUEUE = 4_096


class Tracer:
    """Sends spans in a thread of its own."""

    def __init__(self, url: str, share: float, cluster: str, part: str) -> None:
        """``share`` of all traces are sent. ``part``: the reporting part of Bursar. Raises SettingsError."""
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise SettingsError("tracing.url: OpenTelemetry is not installed: pip install 'bursar[traces]'") from None  # fmt: skip
        self._least = int(share * 2**64)
        self._resource = Resource.create(
            {
                "service.name": "bursar", "service.instance.id": platform.node(),
                "bursar.part": part, "k8s.cluster.name": cluster,
            }
        )  # fmt: skip
        self._exporter = OTLPSpanExporter(f"{url.rstrip('/')}/v1/traces", timeout=REQUEST_SECONDS)
        self._processor = BatchSpanProcessor(self._exporter, max_queue_size=QUEUE)

    def tell(
        self,
        name: str,
        trace: str,
        began_us: int,
        ended_us: int,
        attributes: Attributes,
        *,
        span: str = "",
        below: str = "",
        failure: str = "",
    ) -> None:
        """Send a span of the trace named ``trace``. ``span`` and ``below`` name it and its parent in that trace."""
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import Status, StatusCode

        if int.from_bytes(_digest(trace)[:8]) >= self._least:
            return
        finished: ReadableSpan = ReadableSpan(
            name,
            context=_context(trace, span or f"{name}/{began_us}"),
            parent=_context(trace, below) if below else None,
            resource=self._resource,
            attributes=dict(attributes),
            status=Status(StatusCode.ERROR, failure) if failure else Status(),
            start_time=began_us * 1_000,
            end_time=ended_us * 1_000,
            instrumentation_scope=InstrumentationScope("bursar"),
        )
        self._processor.on_end(finished)

    def close(self) -> None:
        """Send the waiting spans, for END_SECONDS. The rest is dropped without another attempt."""
        ending = threading.Thread(target=self._processor.shutdown, name="spans", daemon=True)
        ending.start()
        ending.join(END_SECONDS)
        if ending.is_alive():
            self._exporter.shutdown()  # type: ignore[no-untyped-call]
            ending.join(END_SECONDS)


@asynccontextmanager
async def tracing(settings: Settings, part: str) -> AsyncIterator[Tracer | None]:
    """The tracer of a part of the process, while the body runs; None without a collector."""
    wanted = settings.tracing
    if not wanted.url:
        yield None
        return
    tracer = Tracer(wanted.url, wanted.share, settings.cluster.name, part)
    try:
        yield tracer
    finally:
        await asyncio.to_thread(tracer.close)


def traced(
    answer: Callable[[Review], Awaitable[Answer]], tracer: Tracer | None
) -> Callable[[Review], Awaitable[Answer]]:
    """``answer`` with a span for each review."""
    if tracer is None:
        return answer
    clock = SystemClock()

    async def spanned(review: Review) -> Answer:
        began_us, answered, failure = clock.now_us(), None, "cancelled"
        try:
            answered = await answer(review)
            failure = ""
            return answered
        except Exception as error:
            failure = type(error).__name__
            raise
        finally:
            outcome: dict[str, str | bool] = {}
            if answered is not None:
                outcome = {"bursar.allowed": answered.allowed, "bursar.reason": answered.reason}
            tracer.tell(
                "review", f"review/{review.uid}", began_us, clock.now_us(),
                {
                    "bursar.review": review.uid, "bursar.operation": review.operation,
                    "bursar.dry_run": review.dry_run, **_object(review.kind, review.namespace, review.name), **outcome,
                },
                failure=failure,
            )  # fmt: skip

    return spanned


class Traced:
    """An effector with a span for each attempt, below the span of its decision."""

    def __init__(self, effector: Effector, tracer: Tracer, clock: Clock) -> None:
        self._effector, self._tracer, self._clock = effector, tracer, clock

    async def act(self, decision: Decision) -> tuple[Result, str]:
        """As the effector does."""
        began_us, trace = self._clock.now_us(), f"decision/{decision.id}"
        about = _about(decision)
        try:
            result, message = await self._effector.act(decision)
        except Exception as error:
            ended_us, failure = self._clock.now_us(), type(error).__name__
            self._tracer.tell(
                "effect", trace, began_us, ended_us, about, below="decision", failure=failure
            )
            raise
        ended_us = self._clock.now_us()
        outcome = {**about, "bursar.result": result, "bursar.message": message}
        self._tracer.tell("effect", trace, began_us, ended_us, outcome, below="decision")
        began_us = min(decision.at_us, began_us)
        self._tracer.tell(decision.wire_type, trace, began_us, ended_us, outcome, span="decision")
        return result, message


def _about(decision: Decision) -> dict[str, str | int | bool]:
    target = decision.target
    return {
        "bursar.decision": decision.id, "bursar.reactor": decision.reactor, "bursar.reason": decision.reason,
        "bursar.quota": decision.quota, "bursar.event": decision.trigger,
        **_object(target.kind, target.namespace, target.name),
    }  # fmt: skip


def _object(kind: str, namespace: str, name: str) -> dict[str, str]:
    return {"bursar.kind": kind, "k8s.namespace.name": namespace, "bursar.name": name}


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def _context(trace: str, span: str) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    of_trace = int.from_bytes(_digest(trace)[:16])
    of_span = int.from_bytes(_digest(f"{trace}/{span}")[:8])
    return SpanContext(of_trace, of_span, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))  # fmt: skip
