"""What a change of the cluster is to pods that wait."""

import msgspec
import pytest

from projections.cluster import Change
from projections.cluster.devices import CardGroup, FoundDevice, NodeDevices
from reactors.scheduling.queueing.hints import Hint, hints_of

CARD = FoundDevice("gpu", 0, "id", {})
FOUND = NodeDevices("u", "n", "1", 1, (CARD,), {})


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, FOUND, [Hint.NODE]),
        (FOUND, msgspec.structs.replace(FOUND, version="2", seen_us=9, last_us=9), []),
        (FOUND, msgspec.structs.replace(FOUND, devices=()), [Hint.NODE]),
        (FOUND, msgspec.structs.replace(FOUND, partitions={1: (CardGroup((0,)),)}), [Hint.NODE]),
        (FOUND, None, [Hint.NODE]),
    ],
    ids=["new", "written anew", "other devices", "other partitions", "gone"],
)
def test_devices_that_are_written_anew_as_they_were_wake_nobody(before, after, expected):
    """Node agents write them again and again."""
    assert list(hints_of(Change(NodeDevices.kind, "u", before, after))) == expected
