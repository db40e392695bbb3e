"""A cluster in memory whose pods may name gangs."""

import msgspec

from bus.events.pods import SIGS, PodGroupObserved
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.reactors.engine.restoring import known, restored
from tests.reactors.scheduling.scene import Cluster, same


class Ganging(Cluster):
    """A cluster whose pods may name gangs."""

    async def begin(self, nodes=3, mode="on", **fields):
        """``fields`` are those of Coscheduling."""
        profile = SchedulingProfile(fields={"Coscheduling": fields} if fields else {})
        await self.set_policy(SchedulingPolicy(profiles=(profile,)), mode)
        await self.say(*(self.node(f"n{number}") for number in range(nodes)))

    def of(
        self,
        uid,
        gang="g",
        node=None,
        *,
        namespace="ns",
        scheduler="bursar",
        labels=None,
        phase="",
        **terms,
    ):
        """A pod of a gang; ``terms`` are those of a light one."""
        named = {"name": gang} | ({"isLight": True} | terms if terms else {})
        raw = msgspec.Raw(msgspec.json.encode({"schedulerName": scheduler, "gang": named}))
        more = {"phase": phase} if phase else {}
        return self.pod(
            uid, node, constraints=raw, namespace=namespace, cpu="2", labels=labels or {}, **more
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


def happens(cluster, random, step):
    """One thing among those that may happen to gangs."""
    state = cluster.runner.replica.cluster_state
    name, does = f"g{random.randrange(4)}", random.randrange(10)
    waiting = sorted(uid for uid, pod in state.pods.items() if not pod.node)
    assumed = sorted(cluster.state.scheduler.assumed) if cluster.state.scheduler else []
    names = sorted(node.name for node in state.current_nodes())
    if does < 3:
        mode = "Strict" if name in ("g0", "g1") else "NonStrict"
        groups = '["ns/g0","ns/g1"]' if name in ("g0", "g1") else ""
        return [
            cluster.of(f"{name}-{step}-{number}", name, least=str(random.randint(1, 4)), mode=mode, wait="20s", groups=groups)
            for number in range(random.randint(1, 3))
        ]  # fmt: skip
    if does == 3 and assumed:
        uid = random.choice(assumed)
        pod, one = state.pods[uid], cluster.state.scheduler.assumed[uid]
        raw = msgspec.Raw(msgspec.json.encode(pod.constraints))
        return [cluster.pod(uid, one.node, constraints=raw, cpu="2")]
    if does == 4 and assumed:
        return [cluster.settled(random.choice(assumed))]
    if does == 5 and len(names) > 2:
        return [cluster.node_gone(random.choice(names))]
    if does == 6:
        return [cluster.node(f"n{random.randrange(5)}", uid=f"uid-{step}")]
    placed = sorted(uid for uid, pod in state.pods.items() if pod.node and not pod.is_ended)
    if does == 9 and placed:
        pod = state.pods[random.choice(placed)]
        raw = msgspec.Raw(msgspec.json.encode(pod.constraints))
        return [cluster.pod(pod.uid, pod.node, constraints=raw, cpu="2", phase="Succeeded")]
    if does == 7 and waiting:
        return [cluster.gone(random.choice(waiting))]
    return [
        cluster.group(name, random.randint(0, 4), mode="NonStrict" if random.random() < 0.5 else "")
    ]
