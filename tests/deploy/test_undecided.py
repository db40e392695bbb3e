"""Reviews without a decision are counted by the process that answers them, whether they failed or were late."""

import msgspec
import pytest

from bus.memory import MemoryTransport
from deploy.runtime import admission
from deploy.runtime.proving import Prover
from deploy.runtime.undecided import Undecided, noting, noting_outlines
from deploy.settings.shape import Settings
from reactors.webhook.outline import outline_of
from reactors.webhook.review import Answer, parse
from tests.reactors.cluster import job
from tests.reactors.outages import body
from tests.scenario import Clock

REVIEW = parse(body(job("a", 1)))
OF = "CREATE of jobs in namespace 'ns'"


class Taking:
    """A cluster that takes every registration."""

    async def get(self, path):
        return {}

    async def apply(self, path, body):
        return {}


def test_the_newest_review_is_kept_with_its_error():
    found, clock = Undecided(), Clock(7)
    failure = noting(lambda review, error: Answer(False, "bursar-unavailable"), found, clock)

    assert failure(REVIEW, AssertionError()).reason == "bursar-unavailable"
    first = msgspec.structs.replace(found)
    clock.us = 9
    failure(REVIEW, None)

    assert first == Undecided(1, 7, f"{OF}: AssertionError")
    assert found == Undecided(2, 9, f"{OF}: no decision in time")


def test_a_late_review_of_which_only_the_outline_was_read_is_kept():
    found = Undecided()
    outlined = outline_of(body(job("a", 1)))
    unread = noting_outlines(lambda outline, reason: Answer(True), found, Clock(7))

    assert unread(outlined, "too large").allowed and found == Undecided()
    assert unread(outlined, None).allowed
    assert found == Undecided(1, 7, f"{OF}: no decision in time")


def test_an_outline_whose_answer_fails_is_kept_with_its_error():
    def fails(outline, reason):
        raise KeyError("a")

    found = Undecided()
    with pytest.raises(KeyError):
        noting_outlines(fails, found, Clock(7))(outline_of(body(job("a", 1))), "too large")
    assert found == Undecided(1, 7, f"{OF}: KeyError 'a'")


async def test_what_a_webhook_answers_without_a_decision_is_in_its_proof(tmp_path, monkeypatch):
    """That is what `bursar up` writes down for `bursar status`."""
    made, whole = [], admission.Application

    def application(handler, failure, **more):
        made.extend((failure, more["unread"]))
        return whole(handler, failure, **more)

    monkeypatch.setattr(admission, "Application", application)
    wanted = {"mode": "shadow", "host": "127.0.0.1", "port": 0, "health_port": 0}
    settings = Settings(data=tmp_path, admission=wanted)
    prover = Prover(Taking(), settings.admission, Clock(0))
    begun = admission.admitting(
        settings, MemoryTransport(), Taking(), keeps=False, prover=prover, shows=[]
    )
    async with begun:
        assert made[0](REVIEW, RuntimeError("a bug")).allowed

        assert prover.proof.undecided.error == f"{OF}: RuntimeError a bug"
        made[1](outline_of(body(job("a", 1))), None)

    assert prover.proof.undecided.error == f"{OF}: no decision in time"
