"""Priority classes: what number a name stands for."""

import pytest

from bus.sources.catalogue import PRIORITIES
from tests.bus.sources.records import POLICY, body, record

METADATA = {"uid": "u", "name": "high", "resourceVersion": "7"}
SAID = {"uid": "u", "name": "high", "resource_version": "7"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        pytest.param({"value": 1000}, {"value": 1000}, id="a value"),
        pytest.param({"value": -5}, {"value": -5}, id="a value below nothing"),
        pytest.param({}, {"value": 0}, id="no value, which JSON leaves out, is 0"),
        pytest.param(
            {"value": 1, "globalDefault": True}, {"value": 1, "is_default": True}, id="the default"
        ),
    ],
)
def test_a_priority_class_says(more, said):
    assert SAID | said == body(PRIORITIES.translate(record({"metadata": METADATA} | more), POLICY))


def test_a_deleted_priority_class_has_vanished():
    event = PRIORITIES.translate(record({"metadata": METADATA}, "DELETED"), POLICY)

    assert ("priorityclass.vanished", SAID) == (event.type, body(event))
