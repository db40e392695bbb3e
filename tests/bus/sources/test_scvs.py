"""Scv objects: the cards of a node."""

from bus.sources.catalogue import SCVS
from tests.bus.sources.records import POLICY, body, record

METADATA = {"uid": "u", "name": "n1", "resourceVersion": "7"}
SAID = {"uid": "u", "name": "n1", "resource_version": "7"}
CARD = {
    "id": 0, "health": "Healthy", "model": "V100", "power": 250, "totalMemory": 11019, "clock": 7000,
    "freeMemory": 11000, "core": 4352, "bandwidth": 616,
}  # fmt: skip


def said(status):
    return body(SCVS.translate(record({"metadata": METADATA, "status": status}), POLICY))


def test_an_scv_object_says():
    status = {
        "cardList": [CARD, {"health": "Unhealthy"}], "cardNumber": 2, "totalMemorySum": 11019,
        "freeMemorySum": 11000, "updateTime": "2021-01-01T00:00:00Z",
    }  # fmt: skip
    card = {
        "is_healthy": True, "total_memory": 11019, "free_memory": 11000, "clock": 7000, "core": 4352,
        "bandwidth": 616, "power": 250,
    }  # fmt: skip

    assert said(status) == SAID | {
        "card_number": 2, "total_memory": 11019, "free_memory": 11000, "cards": [card, {}],
    }  # fmt: skip


def test_amounts_are_bounded():
    found = said({"cardNumber": -1, "totalMemorySum": 2**60, "cardList": [{}] * 1000})

    assert found == SAID | {"total_memory": 2**40, "cards": [{}] * 64}


def test_a_deleted_scv_object_has_vanished():
    event = SCVS.translate(record({"metadata": METADATA}, "DELETED"), POLICY)

    assert ("scv.vanished", SAID) == (event.type, body(event))
