"""A cluster that keeps the Kubernetes Events written to it."""

import itertools

from bus.clock import SECOND_US
from bus.events.admissions import AdmissionDecided, Deficit
from projections.quota_trees import Tree
from reactors.effectors.events import Recorder
from tests.reactors.cluster import START_US
from tests.scenario import Clock

DEFICIT = Deficit("limits.cpu", 2_000, 3_000, 4_000, 3_000)


class Written:
    """An API server that takes everything unless it is given an error to answer with."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.said = []

    async def create(self, path, body):
        return self._answer(("create", path, body))

    async def merge(self, path, body):
        return self._answer(("merge", path, body))

    def _answer(self, request):
        self.said.append(request)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error
        return {}


class World:
    """A recorder whose history is told by hand."""

    def __init__(self, *errors, **options):
        self.cluster, self.clock = Written(*errors), Clock(START_US)
        self.recorder = Recorder(self.cluster, self.clock, Tree, instance="host-1", **options)
        self._ids = itertools.count(1)

    def refuse(self, name="web", ago_s=0, **fields):
        fields = {
            "uid": "u", "kind": "Deployment", "namespace": "ns", "verdict": "refused",
            "reason": "over-quota", "deficits": (DEFICIT,), **fields,
        }  # fmt: skip
        fact = AdmissionDecided(number=1, quota="team", name=name, **fields)
        event = fact.event(
            cluster="c1", key="biz/team", id=f"admission/{next(self._ids)}", source="test",
            time_us=self.clock.us - ago_s * SECOND_US,
        )  # fmt: skip
        self.recorder.apply(event)

    async def work(self, after_s=0):
        self.clock.after(after_s)
        await self.recorder.work()
        return self.cluster.said
