"""Runs the `migration_descheduler` cases of plugins that choose pods: LowNodeLoad and its anomaly detection.

A case says of each pod whether it may be evicted and whether a node fits it; each round is one in which every anomaly counts.
"""

from bus.clock import SECOND_US
from reactors.rebalancing.detector import Detector
from reactors.rebalancing.low_node_load import LowNodeLoad
from reactors.rebalancing.settings import LowNodeLoadSettings
from tests import factories as f
from tests.reactors.rebalancing.clusters import NOW_S, Cluster

#: Koordinator's own names of a pod's priority that the cases use, as priorities.
PRIORITIES = {"koord": 5_500}


def anomaly_detector(given):
    abnormal, normal = _above(given["abnormal_when"]), _above(given["normal_when"])
    detector, states = Detector(abnormal, normal, given["timeout_s"] * SECOND_US), []
    for mark in given["marks"]:
        detector.mark(int(mark["t_s"] * SECOND_US), is_normal=mark["normal"])
        states.append("anomaly" if detector.is_abnormal else "ok")
    return {"states": states}


def _above(text):
    """The number that a count of rounds has to exceed: of ``consecutive > 5`` or ``consecutive >= 6``."""
    _, sign, number = text.split()
    return int(number) - (sign == ">=")


def real_abnormal(given):
    count = given["consecutive_abnormalities"]
    pool = {"consecutive_abnormalities": count, "low": {"cpu": 30}, "high": {"cpu": 50}}
    world = Cluster("n1", "n2").workload("a", ["n1", "n1"])
    world.use("n1", "8", a_0="4", a_1="4").use("n2", "1")
    found = world.plan(
        plugins=["LowNodeLoad"], low_node_load={"pools": [pool]}, earlier=given["detections"] - 1
    )
    return {"abnormal": not any("fewer than" in note for note in found.notes)}


def low_node_load(given):
    prod = {name: given.get(name, {}) for name in ("prod_low_pct", "prod_high_pct")}
    pool = {
        "low": given["low_pct"], "high": given["high_pct"], "deviation": given["deviation"], "consecutive_abnormalities": 1,
        **{name.removesuffix("_pct"): percents for name, percents in prod.items()},
    }  # fmt: skip
    world, pods = Cluster(), {}
    for name, node in given["nodes"].items():
        capacity = node["cap"] | {"cpu": f"{node['cap']['cpu']}m"}
        world.node(
            name, unschedulable=node["unschedulable"],
            allocatable={key: str(amount) for key, amount in capacity.items()},
        )  # fmt: skip
        for pod in node["pods"]:
            pods[pod["name"]] = pod
            priority = PRIORITIES.get(pod.get("priority_class"), 0)
            world.pod(pod["name"], name, cpu=f"{pod['cpu']}m", priority=priority)
        used = {pod["name"]: (f"{pod['cpu']}m", str(pod["memory"])) for pod in node["pods"]}
        world.use_of(name, used)
    mover = Mover(world.state, pods)
    LowNodeLoad(LowNodeLoadSettings.model_validate({"pools": [pool]})).balance(mover)
    return {"evicted_count": mover.moved}


class Mover:
    """Plans what the case lets move, to the first node that the plugin accepts."""

    def __init__(self, state, pods):
        self.state, self._pods, self.moved = state, pods, 0
        self.at_us = f.us(NOW_S)

    def note(self, text):
        pass

    def refuse(self, pod, plugin, reason, refusal):
        raise AssertionError(f"{pod.name}: {refusal}")

    def propose(self, pod, plugin, reason, gain, accepts):
        told = self._pods[pod.name]
        names = sorted(one.name for one in self.state.current_nodes() if one.name != pod.node)
        is_planned = (
            told["evictable"]
            and told.get("fits", True)
            and any(accepts(name) is None for name in names)
        )
        self.moved += is_planned
        return is_planned


OPERATIONS = {one.__name__: one for one in (anomaly_detector, real_abnormal, low_node_load)}
