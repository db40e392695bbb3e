"""NodeName and NodeUnschedulable."""

import msgspec

from reactors.scheduling.framework.contract import Cycle
from reactors.scheduling.plugins.nodes.node_name import NodeName
from reactors.scheduling.plugins.nodes.node_unschedulable import NodeUnschedulable
from tests.reactors.scheduling.worlds import World, reasons


def test_a_pod_that_names_its_node_takes_that_one():
    world = World().node("a").node("b")
    pod = msgspec.structs.replace(world.pod("p"), node="b")

    found = reasons(NodeName(), Cycle(pod, world.context))

    assert found == {"a": {"node(s) didn't match the requested node name"}}
    assert reasons(NodeName(), world.cycle()) == {}


def test_a_cordoned_node_takes_no_new_pod():
    world = World().node("a", unschedulable=True).node("b")

    found = reasons(NodeUnschedulable(), world.cycle())

    assert found == {"a": {"node(s) were unschedulable"}}
