"""``bursar why`` says which CPUs and parts of NUMA nodes a pod got, by the decision."""

from bus.events.constraints import HeldCpus, NumaShare
from bus.events.decisions import SchedulingPassed, TriedPod
from deploy.cli.explaining.placing import sentences
from deploy.queries.scheduling_decisions import Recorded
from tests import factories as f

SHARES = (NumaShare(0, {"cpu": "4", "memory": "1024"}), NumaShare(1, {"cpu": "1"}))


def told(cpus):
    pod = TriedPod("u", "ns", "p", 0, 1, -1)
    fact = SchedulingPassed(
        profile="bursar", after=1, assumed=0, rules=1, policy="", at_us=0, count=1, nodes=("a",),
        pods=(pod,), cpus={} if cpus is None else {"u": cpus},
    )  # fmt: skip
    return next(sentences(Recorded(f.said(fact, key="bursar", id="x", at=0), fact, pod, "bound", "", "a")))  # fmt: skip


def test_why_says_which_cpus_a_pod_got():
    found = [told(one) for one in (HeldCpus("0-4", SHARES), HeldCpus("2-3"), HeldCpus(), None)]

    assert found == [
        "node a, CPUs 0-4, NUMA node 0: cpu 4 memory 1024, NUMA node 1: cpu 1", "node a, CPUs 2-3", "node a", "node a",
    ]  # fmt: skip
