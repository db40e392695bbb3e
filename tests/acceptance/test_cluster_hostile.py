"""Hostile tenants at a real API server with its controllers: no more lives than the quotas allow.

Tenants have `edit` in three namespaces, each mapped to its part of a tree of quotas. They make, scale and delete workloads
and pods, with `--cascade=orphan` too; forge owners, also such that do not exist; have pods adopted; give what is covered
other owners; scale covered ReplicaSets; shrink and grow the templates of what runs; and name quotas of other teams.
Meanwhile webhooks, bus, keeper and ledger are killed, as in :mod:`tests.acceptance.test_cluster_storm`.

What must hold, by the API server's own record (:mod:`tests.acceptance.cluster_record`), write by write, and by the journals,
entry by entry:

- The live pods in a quota, by their own requests, are never above its limit. Only pods which a controller made while no
  webhook answered do not count: such pods pass (``docs/admission.md``, "When a part is away"), and the API server's own
  audit log names each.
- The journals never admit above a limit. They exceed one only by what is there whatever is allowed: what was adopted (it
  passed while nobody answered, or before two webhook processes saw each other's) and an orphan's part of a charge.
- No charge is above what its object asks for or what lives below it for more than 90 s: counted from the last request that
  was admitted for the object, or the last time that it or what makes pods below it asked for less, as what is made of either
  may land until the API server's deadline; and while a keeper runs.
- No live pod that was asked about is uncharged for more than 30 s, while a keeper runs.
- Every process knows the same trees as one that reads the history from the beginning.

`BURSAR_HOSTILE_REQUESTS` sets the number of requests, which is 2,500 otherwise: on two cores that takes three minutes and a
half, and 20,000 take seven.
"""

import os

import pytest

from tests.acceptance.cluster_hostile import HostileStorm, audited, rioted_through, show
from tests.acceptance.storm import Plan

pytestmark = [pytest.mark.nats, pytest.mark.kube, pytest.mark.slow]

REQUESTS = int(os.environ.get("BURSAR_HOSTILE_REQUESTS", "2500"))
#: Most seconds that more may be charged than lives, and that a live pod may not be charged.
SETTLES, SEES = 90, 30


@pytest.mark.timeout(2_400)
async def test_whatever_tenants_try_no_more_lives_than_the_quotas_allow(start_plane, tmp_path):
    flags, log = audited(tmp_path)
    plane = start_plane(
        controllers=True, simulator=True, unsafe_no_fsync=True, apiserver_flags=flags
    )
    plan = Plan(
        REQUESTS, speed=1, kill_seconds=4.0, bus_seconds=15.0, keeper_seconds=20.0,
        ledger_seconds=20.0, settle_seconds=95.0,
    )  # fmt: skip
    storm = await rioted_through(
        HostileStorm(plane.folder / "bursar", plan, plane=plane, audit=log)
    )
    show(storm)
    told, found = storm.told_clients, storm.findings

    assert sum(told.outcomes.values()) == REQUESTS
    assert told.written - {(w.object["metadata"]["uid"], w.version) for w in storm.writes} == set()
    assert [str(one) for one in storm.over[:3]] == []
    assert (found.over[:3], found.gaps[:3]) == ([], [])
    assert storm.above[0].seconds <= SETTLES, storm.above[0]
    assert storm.below[0].seconds <= SEES, storm.below[0]
    assert [storm.replayed] * 4 == storm.told_trees
    met = ("over-quota", "quota-not-yours", "orphaned", "raised", "covered")
    assert min(found.reasons[one] for one in met) > REQUESTS // 1000
