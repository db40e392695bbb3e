"""What reviews and what follows them cost: how often an object is read, and how often a list is asked for."""

import asyncio
import sys

import pytest

from bus.kube import kinds
from tests.reactors.cluster import Cluster, job

pytestmark = pytest.mark.simulated


async def test_lists_that_settle_nothing_are_asked_for_less_and_less_often():
    """One was asked for every 5 s while anything was unsettled. What becomes due is asked for at once, whatever rests."""
    relists = []
    async with Cluster(relist=relists.append) as cluster:

        async def pass_by(seconds):
            for _ in range(seconds // 5):
                cluster.clock.after(5)
                await asyncio.sleep(5)

        await cluster.see_quota("team", {"limits.cpu": 9_000})
        await cluster.ask("a", 2)
        await pass_by(70)
        assert [] == relists
        await pass_by(35)
        assert ["Job"] * 3 == relists
        await pass_by(600)
        assert len(relists) <= 14
        await cluster.ask("b", 2)
        await pass_by(75)
        before = len(relists)
        await pass_by(10)
        assert len(relists) > before
        await pass_by(300)
        before = len(relists)
        cluster.clock.after(-300)
        await pass_by(10)
        assert len(relists) > before, "a clock that is set back stops none"


async def test_a_review_reads_the_object_and_the_stored_one_once():
    """Reading is the dearest step of a review, and an update of a covered object did so four times."""
    async with Cluster() as cluster:
        await cluster.see_quota("team", {"limits.cpu": 9_000})
        await cluster.ask("a", 2)
        await cluster.see("a", 2)
        read = []

        def look(frame, event, argument):
            if event == "call" and frame.f_code is kinds.asked.__code__:
                read.append(frame.f_code)

        review = cluster.review(job("a", 3), old_object=job("a", 2), operation="UPDATE")
        sys.setprofile(look)
        try:
            answer = await review
        finally:
            sys.setprofile(None)

        assert (answer.reason, len(read)) == ("fits", 2)
