"""A job that failed by its limits loses every pod, also one whose deletion was refused when it failed."""

import pytest

from bus.clock import SECOND_US
from bus.events.workloads import Condition, ReplicaSpec, TrainingSpec
from reactors.jobs.passes import reconciled
from reactors.jobs.shape import Job, Rules, Seen, SeenPod, Status

OWN, V1 = Rules(is_v1=False), Rules(is_v1=True)


def removed(rules=OWN, start=0, end=60, ended="Failed", replaced=0, **spec):
    """Why the pod that still runs is deleted, if it is."""
    replicas = {"Worker": ReplicaSpec(1, "ExitCode")}
    status = Status((Condition(ended, "True", ended),), {}, start * SECOND_US, end * SECOND_US)
    job = Job("j", "TFJob", "ns", "train", TrainingSpec(replicas, **spec), status)
    seen = Seen((SeenPod("train-worker-0", "p", "worker", "0", "Running"),), replaced=replaced)
    found = reconciled(job, seen, 100 * SECOND_US, rules)
    return [one.reason for one in found.removals]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"deadline_s": 60}, ["limit_reached"]),
        ({"deadline_s": 61}, []),
        ({"deadline_s": 60, "rules": V1}, []),
        ({"deadline_s": 60, "ended": "Succeeded"}, []),
        ({"backoff_limit": 2, "replaced": 2}, ["limit_reached"]),
        ({"backoff_limit": 2, "replaced": 1}, []),
        ({"deadline_s": 61, "clean_pod_policy": "All"}, ["finished"]),
        ({}, []),
    ],
    ids=["late", "in time", "the operator's", "succeeded", "too often", "not too often", "policy", "no limit"],
)  # fmt: skip
def test_what_a_limit_ended_is_deleted_until_it_is_gone(given, expected):
    assert removed(**given) == expected
