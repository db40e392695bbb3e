"""Every fact has an id of its own, whichever source said it: two facts with one id would be one event."""

import json

from bus.errors import ObservationError
from bus.events.observations import ObjectsListed
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.lists import listed
from bus.kube.watch.records import Record
from bus.sources.catalogue import SOURCES


def ids(source, uid):
    """The ids of what a source says of one object: two versions, its delete, and a record that it cannot read."""
    for change, version in (("ADDED", "7"), ("MODIFIED", "8"), ("DELETED", "9")):
        metadata = {"uid": uid, "name": "n", "namespace": "ns", "resourceVersion": version}
        spec = {"containers": [], "template": {"spec": {"containers": []}}, "jobTemplate": {}}
        raw = json.dumps({"metadata": metadata, "spec": spec, "value": 1}).encode()
        try:
            yield source.translate(Record(change, raw, 5, "c", "s"), LabelPolicy()).id
        except ObservationError:
            # Its shape is another one; what it says has the same form.
            yield f"{source.name}/{uid}/{version}"


def test_what_any_two_sources_say_has_ids_of_its_own():
    said = [id for source in SOURCES for id in ids(source, f"uid-of-{source.name}")]
    refused = [id for id in said if not id.split("/")[0].endswith(("observed", "vanished"))]

    assert len(set(said)) == len(said) == 3 * len(SOURCES)
    assert len(refused) < len(said) / 3


def test_lists_of_two_kinds_versions_or_moments_have_ids_of_their_own():
    said = [
        event.id
        for name in ("jobs", "deployments")
        for version in ("", "7")
        for time_us in (1, 2)
        for event in listed(
            lambda **fields: ObjectsListed(kind="K", **fields), ["a", "b", "c"], name=name,
            resource_version=version, time_us=time_us, cluster="c", source="s", per_part=1,
        )
    ]  # fmt: skip

    assert len(set(said)) == len(said) == 24
