"""A cluster in memory whose pods may name gangs."""

import msgspec

from bus.events.pods import SIGS, PodGroupObserved
from reactors.scheduling.settings import SchedulingPolicy
from tests import factories as f
from tests.reactors.engine.restoring import known, restored
from tests.reactors.scheduling.scene import Cluster, same


class Ganging(Cluster):
    """A cluster whose pods may name gangs."""

    async def begin(self, nodes=3, mode="on"):
        await self.set_policy(SchedulingPolicy(), mode)
        await self.say(*(self.node(f"n{number}") for number in range(nodes)))

    def of(
        self, uid, gang="g", node=None, *, namespace="ns", scheduler="bursar", labels=None, **terms
    ):
        """A pod of a gang; ``terms`` are those of a light one."""
        named = {"name": gang} | ({"isLight": True} | terms if terms else {})
        raw = msgspec.Raw(msgspec.json.encode({"schedulerName": scheduler, "gang": named}))
        return self.pod(
            uid, node, constraints=raw, namespace=namespace, cpu="2", labels=labels or {}
        )

    def light(self, number, least=None, gang="g", **terms):
        terms = {"least": str(number if least is None else least)} | terms
        return [self.of(f"{gang}{at}", gang, **terms) for at in range(number)]

    def group(self, name="g", least=2, *, kind=SIGS, namespace="ns", **fields):
        self.version += 1
        body = PodGroupObserved(
            kind=kind, uid=f"group-{namespace}-{name}", namespace=namespace, name=name,
            resource_version=str(self.version), least=least, **fields,
        )  # fmt: skip
        return f.said(body, key=body.uid, id=f"{body.uid}/{self.version}", at=self.at())

    def reason(self, uid):
        one = self.state.scheduler.queues["bursar"].get(uid)
        return one.reason if one is not None else ""

    def same(self):
        assert same(self) == len(self.passes())
        replica = self.runner.replica
        assert known(replica) == known(restored(replica))
