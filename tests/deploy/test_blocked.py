"""What a running process holds back, as `bursar status` shows it."""

import pytest

from bus.errors import PermissionDeniedError
from deploy.runtime.blocked import held_back
from reactors.queue import releasing
from tests.reactors.queue.jobs import Jobs
from tests.reactors.queue.settling import until

pytestmark = pytest.mark.simulated


@pytest.fixture
async def cluster(monkeypatch):
    monkeypatch.setattr(releasing, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(releasing, "APART_SECONDS", 0.0)
    async with Jobs() as running:
        await running.see_team(4)
        yield running


async def test_a_start_that_somebody_refuses_is_told_while_it_is_not_done(cluster):
    """Also a missing permission and an API server that is away: what was released and does not run is not silent."""
    cluster.fails = [PermissionDeniedError(permission="patch jobs.batch")]
    await cluster.create("a", 1)
    stuck = cluster.admission.releasing.stuck
    await until(stuck)
    (told,) = held_back(None, cluster.admission.releasing)

    assert ("ns/a", 1) == (told["first"], told["count"])
    assert "its start is decided and not done" in told["sentence"]
    assert "patch jobs.batch" in told["sentence"]
    cluster.clock.after(60)
    await until(lambda: cluster.running() == ["a"])
    assert stuck() == []


def test_what_keeps_effects_from_being_done_is_told_in_the_words_of_who_refuses_it():
    sentence = "pods are not bound, and tried again: no right"
    (told,) = held_back(None, None, {"scheduling": lambda: [sentence], "culling": tuple})

    assert (told["first"], told["count"], told["sentence"]) == ("scheduling", 1, sentence)
