"""One review in, one decided answer out, before the deadline."""

import asyncio
import logging
import threading
import time

import pytest

from bus.strict import LARGE_BYTES
from reactors.webhook import Answer
from reactors.webhook import application as module
from reactors.webhook.health import HealthApplication
from reactors.webhook.review import MAX_BYTES, parse
from tests.reactors.webhook.asking import Asker, ask
from tests.reactors.webhook.reviews import application, deployment, encoded, review

DEADLINE = 0.05


async def hang(asked):
    await asyncio.Event().wait()


async def test_the_handlers_answer_is_given_to_its_review():
    async def handler(asked):
        return Answer(False, "over-quota", f"{asked.name} is too large")

    app = application(handler)
    asker = await ask(app)

    assert asker.status == 200
    assert asker.response == {
        "uid": "review-1",
        "allowed": False,
        "status": {"code": 403, "reason": "over-quota", "message": "service is too large"},
    }
    assert (app.state.allowed, app.state.denied) == (0, {"over-quota": 1})


async def test_a_review_in_many_pieces_is_one_review():
    raw = encoded()
    asker = await ask(application(), raw[:10], raw[10:400], raw[400:])

    assert asker.response["allowed"] is True


async def test_a_handler_that_hangs_is_answered_for_at_the_deadline():
    app = application(hang, deadline_seconds=DEADLINE)
    began = time.monotonic()
    asker = await ask(app)

    assert asker.response["status"]["reason"] == "bursar-unavailable"
    assert DEADLINE <= time.monotonic() - began < 20 * DEADLINE
    assert app.state.late == 1


@pytest.mark.simulated
async def test_a_handler_that_swallows_its_cancellation_is_answered_for_too():
    released = asyncio.Event()

    async def stubborn(asked):
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return Answer(True)

    app = application(stubborn, deadline_seconds=DEADLINE)
    asker = Asker(encoded())
    task = asyncio.create_task(app(asker.scope, asker.receive, asker.send))
    await asyncio.sleep(3 * DEADLINE)

    assert not task.done()
    assert asker.response["allowed"] is False

    released.set()
    await task

    assert len(asker.messages) == 2
    assert app.state.allowed == 0


async def test_a_late_review_of_something_uncharged_is_allowed_with_a_warning():
    raw = encoded(operation="DELETE", object=None, oldObject=deployment())
    asker = await ask(application(hang, deadline_seconds=DEADLINE), raw)

    assert asker.response["allowed"] is True
    assert asker.response["warnings"]


async def test_a_handler_that_fails_is_answered_for_and_logged(caplog):
    async def broken(asked):
        raise RuntimeError("lost")

    app = application(broken)
    with caplog.at_level(logging.ERROR):
        asker = await ask(app)

    assert asker.response["status"]["reason"] == "bursar-unavailable"
    assert (app.state.failed, app.state.late) == (1, 0)
    assert "lost" in caplog.text


@pytest.mark.simulated
async def test_a_cancelled_request_stays_cancelled():
    asker = Asker(encoded())
    app = application(hang)
    task = asyncio.create_task(app(asker.scope, asker.receive, asker.send))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert asker.messages == []


async def test_a_body_that_does_not_begin_is_waited_for_once_more_and_then_no_longer():
    app = application(deadline_seconds=DEADLINE)
    began = time.monotonic()
    asker = await ask(app, encoded()[:10], ...)

    assert 2 * DEADLINE <= time.monotonic() - began < 20 * DEADLINE

    assert (asker.status, asker.closes) == (408, True)
    assert app.state.refused == {408: 1}


async def test_an_asker_who_has_gone_is_not_answered():
    app = application()
    asker = await ask(app, encoded()[:10], None)

    assert asker.messages == []
    assert app.state.allowed == 0


REFUSED = {
    "an empty body": (400, (b"",), {}),
    "an array": (400, (b"[]",), {}),
    "v1beta1": (400, (encoded().replace(b"k8s.io/v1", b"k8s.io/v1beta1"),), {}),
    "3 MB of no review": (400, (b"x" * (MAX_BYTES + 1),), {}),
    "protobuf": (415, (encoded(),), {"content_type": "application/vnd.kubernetes.protobuf"}),
    "a form": (415, (encoded(),), {"content_type": "application/x-www-form-urlencoded"}),
    "no content type": (415, (encoded(),), {"content_type": ""}),
    "GET": (405, (b"",), {"method": "GET"}),
    "another path": (404, (encoded(),), {"path": "/admit/"}),
    "the benchmark's control": (404, (encoded(),), {"path": "/empty"}),
}


@pytest.mark.parametrize(("status", "chunks", "request_"), REFUSED.values(), ids=REFUSED)
async def test_what_is_no_review_has_an_http_error_and_never_an_answer(status, chunks, request_):
    async def never(asked):
        raise AssertionError("asked")

    asker = await ask(application(never), *chunks, **request_)

    assert status == asker.status
    assert b"allowed" not in asker.body


async def test_a_large_body_that_is_no_review_is_not_read_to_its_end():
    asker = Asker(*[b"x" * 1_000_000] * 5)
    await application()(asker.scope, asker.receive, asker.send)

    assert (asker.status, asker.closes) == (400, True)
    assert asker._chunks


async def test_an_object_that_cannot_be_read_exactly_is_denied():
    app = application()
    asker = await ask(app, encoded(object=deployment(annotations={"a": "\0"})))

    assert asker.response["allowed"] is False
    assert asker.response["status"]["reason"] == "unreadable-object"
    assert asker.response["uid"] == review()["request"]["uid"]


async def test_a_content_type_may_name_its_character_set():
    asker = await ask(application(), content_type="application/json; charset=utf-8")

    assert asker.response["allowed"] is True


async def test_the_benchmarks_control_allows_everything_where_it_is_asked_for():
    asker = await ask(application(hang, with_empty=True), path="/empty")

    assert asker.response["allowed"] is True


async def test_health_and_figures_are_not_on_the_port_of_the_reviews():
    seen = [
        (await ask(application(), b"", path=path, method="GET")).status
        for path in ("/healthz", "/readyz", "/metrics")
    ]

    assert [404, 404, 404] == seen


@pytest.mark.parametrize(
    ("ready", "draining", "status"), [(True, False, 200), (False, False, 503), (True, True, 503)]
)
async def test_readiness_follows_the_caller_and_ends_with_draining(ready, draining, status):
    app = HealthApplication(lambda: ready)
    app.draining = draining
    asker = await ask(app, b"", path="/readyz", method="GET")

    assert status == asker.status


async def test_health_is_answered_also_while_not_ready():
    asker = await ask(HealthApplication(lambda: False), b"", path="/healthz", method="GET")

    assert asker.status == 200


async def test_a_draining_server_asks_to_connect_anew():
    app = application()
    before = await ask(app)
    app.draining = True
    after = await ask(app)

    assert (before.closes, after.closes) == (False, True)


async def test_a_large_review_is_read_beside_the_event_loop(monkeypatch):
    """While a large one is read, others are answered; so no shape of 3 MiB can hold them up."""
    reading, go_on = threading.Event(), threading.Event()
    loop_thread = threading.get_ident()

    def read(raw):
        if threading.get_ident() != loop_thread:
            reading.set()
            assert go_on.wait(10)
        return parse(raw)

    monkeypatch.setattr(module, "parse", read)
    app = application(deadline_seconds=20)
    large = encoded(object=deployment(annotations={"a": "x" * LARGE_BYTES}))
    first = asyncio.create_task(ask(app, large))
    while not reading.is_set():
        await asyncio.sleep(0.01)
    small = await ask(app)
    go_on.set()

    assert small.response["allowed"] is True
    assert (await first).response["allowed"] is True


@pytest.mark.simulated
async def test_only_a_few_large_bodies_are_taken_into_memory_at_once():
    """The ninth waits with 64 KiB, until its deadline; a small one is answered, and each one gets an answer."""
    app = application(deadline_seconds=0.5)

    def pieces(number):
        object = deployment(annotations={"a": "x" * LARGE_BYTES * 2})
        large = encoded(namespace=f"team-{number % 4}", object=object)
        return [large[: LARGE_BYTES + 1], large[LARGE_BYTES + 1 :]]

    slow = [Asker(pieces(number)[0], ...) for number in range(8)]
    waiting = [asyncio.create_task(app(one.scope, one.receive, one.send)) for one in slow]
    await asyncio.sleep(0)
    ninth = Asker(*pieces(9))
    waiting.append(asyncio.create_task(app(ninth.scope, ninth.receive, ninth.send)))
    await asyncio.sleep(0.05)
    unread, small = len(ninth._chunks), await ask(app)
    await asyncio.gather(*waiting)

    assert (unread, small.response["allowed"]) == (1, True)
    assert {one.response["status"]["reason"] for one in [*slow, ninth]} == {"bursar-unavailable"}
