"""A storm of training jobs on a real API server: the reactor, the bus and the API server die at each label of the flow.

Pods fail by exit code and are evicted, nodes are lost, jobs pass their deadlines and limits. What is checked is etcd's own record,
version by version: no slot ever had two live pods, none was made in vain, nothing is left without its job, each job ended as
its script says, and the writes about it are at most half of those that the training operator's rules make of the same pods, a look
for each event, Kubernetes Events included. At the end every decision is derived again, and attempts held what their pods did.

`BURSAR_JOBS_STORM=500` has 500 jobs of 8 pods, and everybody killed at each label: 42 kills, in some ten minutes on two cores.
By default it is 28 jobs, and one kill at each label.

Source: docs/reliability.md.
"""

import json
import os
import random
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.acceptance import jobs_record
from tests.acceptance.jobs_storm import REACHES, SCRIPTS, Storm, Up, kills
from tests.cluster.training import CRDS

COUNT = int(os.environ.get("BURSAR_JOBS_STORM", "28"))
IS_WHOLE = COUNT >= 500
PODS = 8
#: Of the jobs, all others having come between two kills.
NODES_LOST = 2
HELD = (
    "SELECT (SELECT SUM(cpu_milli_s) FROM v1_attempts) AS attempts,"
    " (SELECT SUM(cpu_milli_s) FROM v1_held_segments) AS pods"
)
MANIFESTS = Path(__file__).parents[2] / "deploy" / "manifests"

pytestmark = [
    pytest.mark.kube, pytest.mark.slow, pytest.mark.waits, pytest.mark.timeout(7200 if IS_WHOLE else 2700),
]  # fmt: skip


@pytest.fixture
def plane(start_plane):
    running = start_plane(
        controllers=True, scheduler=True, simulator=True, unsafe_no_fsync=True,
        apiserver_flags=jobs_record.FLAGS,
    )  # fmt: skip
    for path in (MANIFESTS / "crds", MANIFESTS / "rbac", MANIFESTS / "training" / "jobs.yaml", CRDS):  # fmt: skip
        running.kubectl("apply", "--server-side", "-f", str(path))
    running.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    running.create_nodes(COUNT * PODS // 60 + 4, cpu="200")
    return running


@pytest.fixture
def up(plane, tmp_path):
    found = Up(plane, tmp_path)
    found.start()
    yield found
    found.kill()


def test_jobs_end_as_they_should_whoever_is_killed_at_any_label(plane, up):
    storm = Storm(plane, PODS)
    planned = kills(IS_WHOLE)
    scripts, missed = cycle(SCRIPTS), []
    nodes_lost = random.Random(17).sample(range(2, len(planned)), NODES_LOST)
    for place, (label, victim) in enumerate(planned):
        storm.submit(REACHES.get(label, "plain"))
        due = COUNT * (place + 1) // len(planned)
        for script in islice(scripts, due - len(storm.jobs)):
            storm.submit(script)
        if place in nodes_lost:
            storm.lose_node()
        if not up.dies_at(label, victim, storm.record):
            missed.append((label, victim))
    storm.until(storm.unfinished, every=5 if IS_WHOLE else 2)
    storm.until(lambda: jobs_record.orphans(storm.record.versions()), every=1)
    check(storm, missed)
    each = {name: f"{used / COUNT:.3f}" for name, used in up.cpu_seconds().items()}
    print(f"CPU seconds a job, starts after kills included: {each}")
    up.kill()
    (sums,) = json.loads(up.asks("sql", HELD, "-o", "json"))
    assert sums["attempts"] == sums["pods"] > 0
    told = json.loads(up.asks("verify", "--decisions", "-o", "json"))
    assert (told["ok"], told["decisions_different"]) == (True, [])
    assert told["decisions"] > 3 * COUNT


def check(storm, missed):
    versions = storm.record.versions()
    made = [one for one in versions if one.key.startswith(jobs_record.PODS) and one.before is None]
    lost = jobs_record.on_nodes(versions, storm.lost)
    print(f"{len(storm.jobs)} jobs, {len(made)} pods, {len(lost)} lost with nodes")
    assert missed == []
    assert jobs_record.doubled(versions) == []
    assert jobs_record.in_vain(versions, lost) == []
    own = jobs_record.writes(versions, lost)
    ours = sum(told.total() for told in own.values())
    theirs = {
        seconds: operator_writes(versions, own, seconds)
        for seconds in (0.0, jobs_record.LOOK_SECONDS, 1.0)
    }
    each = {seconds: f"{count / len(storm.jobs):.1f}" for seconds, count in theirs.items()}
    print(f"writes a job: {ours / len(storm.jobs):.1f}; the operator's by the seconds of a look: {each}")  # fmt: skip
    events = sum(one["events"] for one in own.values())
    print(f"of them Events: {events / len(storm.jobs):.1f}")
    assert events >= len(storm.jobs) / 2
    assert ours <= theirs[0.0] / 2


def operator_writes(versions, own, seconds):
    """What the operator would have written about all jobs: of each object that it makes or deletes an Event, too."""
    told = jobs_record.operator_writes(versions, ("TFJob", "PyTorchJob"), seconds)
    objects = sum(one.total() - one["status"] - one["events"] for one in own.values())
    return 2 * objects + sum(one.total() for one in told.values())
