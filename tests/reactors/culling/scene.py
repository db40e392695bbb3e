"""A cluster of notebooks for the culling reactor: seen, looked at, ticking, with an effector that only counts."""

from bus.clock import SECOND_US
from bus.events.decisions import Cull, EffectSettled, Warn, Withdraw
from bus.events.notebooks import Evidence, NotebookSampled
from bus.events.observations import ObjectsListed
from reactors.culling.policy import CullingPolicy
from reactors.culling.reactor import reactor
from tests.factories import owner, pod_observed, said, us, workload_observed
from tests.reactors.engine.toys import Effector
from tests.scenario import Scenario

#: Nothing but the interlocks' own limit, which two hundred notebooks raise to four.
FAST = {"pace": {"per_minute": 1000, "per_namespace": 1000, "per_node": 1000}}


class Notebooks(Scenario):
    """Times in seconds after the start; ticks every 10 s, and looks every 100 s as the kernels then are."""

    def __init__(self, effector=None, **history):
        self.effector = effector or Effector()
        verbs = ("cull", "restore", "warn", "withdraw")
        super().__init__(reactor, {f"decision.{verb}": self.effector for verb in verbs}, **history)
        #: uid → what every look at it says.
        self.kernels = {}
        self.version = 1

    async def policy(self, mode="on", **fields):
        policy = CullingPolicy.model_validate({**FAST, "idle_seconds": 1_800} | fields)
        await self.set_policy(policy, mode)

    async def see(self, uid="nb-1", *, kind="Notebook", annotations=None, pod=None):
        """A notebook of a kind, its pod since second 0, and the chain between them."""
        self.version += 1
        top = f"{kind}-{uid}"
        chain = {
            "Notebook": [("StatefulSet", f"set-{uid}", top), ("Notebook", top, None)],
            "StatefulSet": [("StatefulSet", top, None)],
            "Deployment": [("ReplicaSet", f"set-{uid}", top), ("Deployment", top, None)],
            "Pod": [],
            "Job": [("Job", top, None)],
        }[kind]
        first = owner(chain[0][1], chain[0][0]) if chain else None
        objects = [
            workload_observed(
                one, self.version, at=self.at(), kind=of,
                owner=owner(above, kind) if above else None,
                annotations=(annotations or {}) if above is None else {},
            )
            for of, one, above in chain
        ]  # fmt: skip
        fields = {"annotations": annotations or {}} if not chain else {}
        await self.say(
            *objects,
            pod_observed(
                uid, self.version, at=self.at(), **{"owner": first} | fields | (pod or {})
            ),
        )

    async def look(self, uid="nb-1", *, at=None, **evidence):
        """One look: kernels idle since second 0 unless told otherwise."""
        fields = {"source": "jupyter_kernels", "active_us": us(0), **evidence}
        fact = NotebookSampled(uid=uid, image="jupyter/base", evidence=(Evidence(**fields),))
        at = self.at() if at is None else at
        await self.say(said(fact, key=uid, id=f"{uid}/{at}/sampled", at=at))

    async def pass_time(self, seconds, *, acts=True):
        """Ticks, looks at all that is in ``kernels``, and effects, for so long."""
        for _ in range(int(seconds // 10)):
            if not round(self.at()) % 100:
                for uid, evidence in self.kernels.items():
                    await self.look(uid, **evidence)
            await self.tick()
            if acts:
                await self.work()

    async def idle(self, count=1, kind="Notebook", mode="on", **policy):
        """Notebooks that are idle since the start."""
        await self.policy(mode, **policy)
        for number in range(1, count + 1):
            await self.see(f"nb-{number}", kind=kind)
            self.kernels[f"nb-{number}"] = {}

    @property
    def story(self):
        """(second, verb, key or result) of everything decided and settled."""
        verbs = {fact.wire_type: fact for fact in (Warn, Withdraw, Cull)}
        found = []
        for event in self.transport.events:
            second = (event.time_us - us(0)) // SECOND_US
            if event.type in verbs:
                verb = event.type.removeprefix("decision.")
                found.append((second, verb, verbs[event.type].read(event).key))
            elif event.type == EffectSettled.wire_type:
                fact = EffectSettled.read(event)
                found.append((second, fact.result, fact.message))
        return found

    def culled(self):
        return [key for _, verb, key in self.story if verb == "cull"]


def objects_listed(kind, uids, at):
    fact = ObjectsListed(kind=kind, resource_version="9", uids=tuple(uids))
    return said(fact, key=f"{kind}-9-1", id=f"{kind}-9-1", at=at)
