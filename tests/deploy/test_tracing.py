"""Traces as a collector gets them: one that listens here, and reads what OpenTelemetry's exporter sends."""

import gzip
import http.server
import threading
import time
from contextlib import asynccontextmanager

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from bus.errors import RetryableError
from bus.events.decisions import Target, Warn
from deploy.errors import SettingsError
from deploy.runtime.tracing import Traced, Tracer, traced, tracing
from deploy.settings.load import load
from reactors.webhook.review import Answer, Review
from tests.reactors.cluster import START_US, Cluster, job
from tests.scenario import Clock

REVIEW = Review(
    uid="r-1", operation="CREATE", group="batch", version="v1", resource="jobs", subresource="", kind="Job",
    namespace="ns", name="train", user="amy@example.org", groups=("staff",), dry_run=False, object={"secret": "s3cret"},
    old_object=None, options=None,
)  # fmt: skip
WARN = Warn(
    id="0" * 31 + "1", reactor="culling", rules=1, key="k", trigger=17, at_us=START_US, policy="p", is_shadow=False,
    target=Target("Notebook", "ns", "nb", "uid"), quota="team", reason="idle", expires_us=START_US + 1,
)  # fmt: skip


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.bodies.append((self.path, dict(self.headers), body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.bodies = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@asynccontextmanager
async def told(monkeypatch, tmp_path, url, **more):
    """A tracer as the settings make it; what was told is sent when this ends."""
    monkeypatch.setenv("BURSAR_DATA", str(tmp_path))
    monkeypatch.setenv("BURSAR_TRACING__URL", url)
    for name, text in more.items():
        monkeypatch.setenv(name, text)
    async with tracing(load(), "webhook") as tracer:
        yield tracer


def url_of(collector):
    return f"http://127.0.0.1:{collector.server_address[1]}"


def spans(collector):
    """(resource, span, attributes) of every span."""
    found = []
    for path, _, body in collector.bodies:
        assert path == "/v1/traces"
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = plain(part.resource.attributes)
            for scope in part.scope_spans:
                found += [(resource, one, plain(one.attributes)) for one in scope.spans]
    return found


def plain(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


async def test_a_review_is_a_span_that_says_what_was_answered_and_nothing_of_the_asker(
    collector, monkeypatch, tmp_path
):
    async with told(monkeypatch, tmp_path, url_of(collector)) as tracer, Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 1000})
        answer = traced(cluster.admission.handler, tracer)
        for number, cpu in enumerate((1, 2)):
            await answer(
                msgspec.structs.replace(REVIEW, uid=f"r-{number}", object=job(f"j{number}", cpu))
            )
    [(resource, first, said), (_, second, refused)] = spans(collector)

    assert (resource["service.name"], resource["bursar.part"]) == ("bursar", "webhook")
    assert (first.name, said["bursar.review"], said["bursar.allowed"]) == ("review", "r-0", True)
    assert (refused["bursar.allowed"], refused["bursar.reason"]) == (False, "over-quota")
    assert said["k8s.namespace.name"] == "ns" and first.trace_id != second.trace_id
    assert 0 < first.start_time_unix_nano <= first.end_time_unix_nano
    texts = b"".join(body for _, _, body in collector.bodies)
    assert not [word for word in (b"amy", b"staff", b"s3cret") if word in texts]


class Effect:
    """Fails for now, and is done the second time."""

    def __init__(self):
        self.times = 0

    async def act(self, decision):
        self.times += 1
        if self.times == 1:
            raise RetryableError(reason="the API server is away")
        return "done", "stopped"


async def test_each_attempt_is_a_span_below_that_of_the_decision_whichever_process_made_it(
    collector, monkeypatch, tmp_path
):
    effect, clock = Effect(), Clock(START_US + 3_000_000)
    for _ in range(2):
        async with told(monkeypatch, tmp_path, url_of(collector)) as tracer:
            effector = Traced(effect, tracer, clock)
            if effect.times == 0:
                with pytest.raises(RetryableError):
                    await effector.act(WARN)
            else:
                assert await effector.act(WARN) == ("done", "stopped")
    [failed, done, decision] = [(span, attributes) for _, span, attributes in spans(collector)]

    assert {span.trace_id for span, _ in (failed, done, decision)} == {decision[0].trace_id}
    assert failed[0].parent_span_id == done[0].parent_span_id == decision[0].span_id
    assert (failed[0].status.message, decision[0].name) == ("RetryableError", "decision.warn")
    assert (done[1]["bursar.result"], decision[1]["bursar.decision"]) == ("done", WARN.id)
    assert decision[0].start_time_unix_nano == START_US * 1_000
    assert decision[0].end_time_unix_nano == (START_US + 3_000_000) * 1_000


async def test_an_error_is_a_failed_span_and_still_the_askers(collector, monkeypatch, tmp_path):
    async def failing(review):
        raise RetryableError(reason="away")

    async with told(monkeypatch, tmp_path, url_of(collector)) as tracer:
        with pytest.raises(RetryableError):
            await traced(failing, tracer)(REVIEW)
    [(_, span, attributes)] = spans(collector)
    assert (span.status.message, "bursar.allowed" in attributes) == ("RetryableError", False)


async def test_a_share_sends_whole_traces(collector, monkeypatch, tmp_path):
    share = {"BURSAR_TRACING__SHARE": "0.5"}
    async with told(monkeypatch, tmp_path, url_of(collector), **share) as tracer:
        for number in range(200):
            for name in ("effect", "decision.warn"):
                tracer.tell(name, f"decision/{number}", 1, 2, {"n": number})
    sent = [attributes["n"] for _, _, attributes in spans(collector)]

    assert 60 < len(set(sent)) < 140
    assert len(sent) == 2 * len(set(sent))


async def test_headers_are_those_of_every_sdk(collector, monkeypatch, tmp_path):
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20token"}
    async with told(monkeypatch, tmp_path, url_of(collector), **headers) as tracer:
        tracer.tell("review", "review/1", 1, 2, {})
    assert collector.bodies[0][1]["authorization"] == "Bearer token"


async def test_a_collector_that_is_away_holds_up_nobody(monkeypatch, tmp_path):
    """More spans than wait for it, and an end."""

    async def answer(review):
        return Answer(True, "fits")

    async with told(monkeypatch, tmp_path, "http://127.0.0.1:1") as tracer:
        spanned = traced(answer, tracer)
        began = time.monotonic()
        for _ in range(6_000):
            await spanned(REVIEW)
        assert time.monotonic() - began < 20
        ends = time.monotonic()
    assert time.monotonic() - ends < 10
    assert not [one.name for one in threading.enumerate() if one.name.startswith(("Otel", "spans"))]


async def test_without_an_address_nothing_is_made_and_an_answer_is_what_it_was(
    monkeypatch, tmp_path
):
    async def answer(review):
        return Answer(True, "fits")

    async with told(monkeypatch, tmp_path, "") as tracer:
        assert tracer is None
        assert traced(answer, tracer) is answer


@pytest.mark.parametrize("url", ["collector:4318", "grpc://collector", "http://", "http://a b"])
def test_an_address_that_is_none_is_refused_by_name(url, monkeypatch, tmp_path):
    monkeypatch.setenv("BURSAR_DATA", str(tmp_path))
    monkeypatch.setenv("BURSAR_TRACING__URL", url)
    with pytest.raises(SettingsError, match=r"tracing\.url|TRACING__URL"):
        load()


def test_where_the_sdk_is_not_installed_the_way_to_it_is_told(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(SettingsError, match=r"bursar\[traces\]"):
        Tracer("http://127.0.0.1:1", 1.0, "c", "act")
