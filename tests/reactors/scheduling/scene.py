"""A cluster in memory whose scheduler reads what is said, and what the oracle says of a node."""

import msgspec

from bus.events.decisions import BindSettled, FailedBind, SchedulingPassed
from reactors.engine.verify import rederive
from reactors.scheduling.reactor import reactor
from tests import factories as f
from tests.reactors.scheduling import oracle
from tests.reactors.scheduling import term_oracle as plainly
from tests.scenario import Scenario

OURS = msgspec.Raw(b'{"schedulerName":"bursar"}')
OTHERS = msgspec.Raw(b"{}")
SMALL = {"cpu": "4", "memory": "8Gi", "pods": "110"}


class Cluster(Scenario):
    """A cluster whose scheduler reads what is told."""

    def __init__(self):
        super().__init__(reactor, {})
        self.version = 0

    @property
    def state(self):
        return self.runner.replica.states["scheduling"]

    def node(self, name, **fields):
        self.version += 1
        fields = {"allocatable": SMALL, "uid": f"uid-{name}"} | fields
        return f.node_observed(name, self.version, self.at(), **fields)

    def pod(self, uid, node=None, **fields):
        self.version += 1
        fields = {"constraints": OURS, "cpu": "1"} | fields
        return f.pod_observed(uid, self.version, self.at(), node=node, **fields)

    def gone(self, uid):
        self.version += 1
        return f.pod_vanished(uid, self.version, self.at())

    def uid(self, node):
        return self.runner.replica.cluster_state.named("Node", "", node)

    def node_gone(self, name):
        self.version += 1
        return f.node_vanished(name, self.version, self.at(), uid=self.uid(name))

    def settled(self, uid, result="refused", message="HTTP 422"):
        one = self.state.scheduler.assumed[uid]
        self.version += 1
        fact = BindSettled(failed=(FailedBind(uid, one.passed, result, message),))
        return f.said(fact, key="bursar", id=f"settled/{self.version}", at=self.at())

    def passes(self):
        return self.facts(SchedulingPassed)

    def placed(self):
        """(uid, node) of every pod that a pass gave a node."""
        return [
            (p.uid, one.nodes[p.node]) for one in self.passes() for p in one.pods if p.node >= 0
        ]

    def outstanding(self):
        return {one.uid: one.node for one in self.state.outstanding}


class Killed(BaseException):
    """The process ends here."""


def same(cluster):
    """How many passes come out the same when they are derived again; all must."""
    found = rederive(lambda: iter(cluster.transport.events), [reactor], cluster.cluster)
    assert found.mismatches == ()
    return found.same


def fresh(cluster):
    return cluster.new_runner(reactor).replica


def refusal(pod, node, nodes, state):
    """Why the oracle would not put a pod there."""
    return (
        oracle.fit_reasons(pod, node)
        or not plainly.selected(pod, node)
        or plainly.untolerated(pod, node, "NoSchedule", "NoExecute")
        or plainly.ports_clash(pod, node)
        or node.row.unschedulable
        or plainly.affinity_reason(pod, node, nodes, state)
        or plainly.spread_reason(pod, node, nodes)
    )
