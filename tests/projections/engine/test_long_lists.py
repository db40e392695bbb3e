"""Facts with long lists of CPUs and cards are booked."""

import pytest

from bus.events.constraints import HeldCpus
from bus.events.decisions import SchedulingPassed
from bus.events.devices import NodeDevicesObserved
from bus.events.nodes import NodeTopologyObserved
from projections.engine.reading import LONGEST_TEXT, fact_in
from tests import factories as f

SPREAD = ",".join(map(str, range(0, 512, 2)))
KNOWN = {"uid": "u", "name": "n", "resource_version": "1"}


def event(fact):
    return f.said(fact, key="n", id="n/1", at=1)


@pytest.mark.parametrize(
    "fact",
    [
        NodeTopologyObserved(**KNOWN, held=SPREAD, reserved=SPREAD),
        NodeDevicesObserved(**KNOWN, partitions=f"[{SPREAD}]"),
        SchedulingPassed(
            profile="p",
            after=1,
            assumed=0,
            rules=4,
            policy="",
            at_us=1,
            cpus={"u": HeldCpus(SPREAD)},
        ),
    ],
    ids=["CPUs of a node", "partitions of cards", "CPUs of a decision"],
)
def test_lists_of_cpus_and_cards_may_be_long(fact):
    assert len(SPREAD) > LONGEST_TEXT
    assert fact_in(event(fact)) == fact
