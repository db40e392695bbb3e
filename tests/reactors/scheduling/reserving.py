"""A cluster with Reservations, and what brute force says of its room."""

import msgspec

from bus.events.constraints import LabelSelector
from bus.events.pods import ReservationObserved, ReservationOwner, ReservationVanished
from reactors.scheduling.settings import SchedulingPolicy, SchedulingProfile
from tests import factories as f
from tests.reactors.scheduling.scene import Cluster

POLICY = SchedulingPolicy(profiles=(SchedulingProfile(weights={"Reservation": 10}),))
CPUS = {"cpu": "8", "memory": "64Gi", "pods": "20"}
#: A template of our scheduler.
OURS = msgspec.Raw(b'{"schedulerName":"bursar"}')


def meant(**labels):
    return (ReservationOwner(label_selector=LabelSelector(match_labels=labels)),)


class Reserving(Cluster):
    """Reservations are told by their names, which are their uids."""

    def __init__(self):
        super().__init__()
        self.told = {}

    def node(self, name, **fields):
        return super().node(name, **{"allocatable": CPUS} | fields)

    def reservation(self, name, cpu=4, node="", owners=None, **fields):
        """Available where it has a node, else it waits for one."""
        self.version += 1
        said = {
            "created": f.stamp(self.at()), "constraints": OURS, "owners": meant(app=name) if owners is None else owners,
            "ttl": "0s", "allocate_once": False, "resources": f.requesting({"cpu": str(cpu)}), "node": node,
        }  # fmt: skip
        if node:
            said |= {"phase": "Available", "allocatable": {"cpu": str(cpu)}}
        fact = ReservationObserved(
            uid=name, name=name, resource_version=str(self.version), **said | fields
        )
        self.told[name] = fact
        return f.said(fact, key=name, id=f"{name}/{self.version}", at=self.at())

    def again(self, name, **fields):
        """A reservation is another than before."""
        self.version += 1
        fact = msgspec.structs.replace(
            self.told[name], resource_version=str(self.version), **fields
        )
        self.told[name] = fact
        return f.said(fact, key=name, id=f"{name}/{self.version}", at=self.at())

    def no_reservation(self, name):
        self.version += 1
        fact = ReservationVanished(uid=name, name=name, resource_version=str(self.version))
        return f.said(fact, key=name, id=f"{name}/{self.version}", at=self.at())

    def owner(self, uid, app, cpu=1, **fields):
        """A pod with a label."""
        return self.pod(
            uid, labels={"app": app}, resources=f.requesting({"cpu": str(cpu)}), **fields
        )

    def seen(self, uid, app, cpu=1):
        """A pod is observed on the node that it was given."""
        return self.owner(uid, app, cpu, node=self.outstanding()[uid])

    @property
    def reservations(self):
        return self.state.scheduler.reservations.known


async def reserving(nodes=1, policy=POLICY, mode="on"):
    cluster = Reserving()
    await cluster.say(*(cluster.node(f"n{number}") for number in range(nodes)))
    await cluster.set_policy(policy, mode=mode)
    return cluster
