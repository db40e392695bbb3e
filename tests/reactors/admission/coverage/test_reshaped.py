"""Changes of what one replica asks for, while they may land."""

from collections import Counter
from types import SimpleNamespace

from bus.events.admissions import Child
from projections.quota_trees.shape import LANDED_US
from reactors.admission.coverage.reshaped import Reshaped


class Objects(Counter):
    """Objects in the version that was to be changed; how often each was asked for."""

    def get(self, uid):
        self[uid] += 1
        return SimpleNamespace(uid=uid, version="1", listed_us=0)


def test_changes_that_never_land_are_looked_at_once_in_a_while():
    """Users may keep many from landing, and every review below an owner drops what is over."""
    changes, objects = Reshaped(), Objects()
    for number in range(100):
        changes.add(Child("ReplicaSet", "set", f"u{number}", "1", "web", {}), 0)
    for _ in range(50):
        changes.expire(2 * LANDED_US, objects)

    assert (objects.total(), len(changes.saved()._changes)) == (100, 100)


def test_changes_of_what_is_gone_are_dropped():
    changes = Reshaped()
    changes.add(Child("ReplicaSet", "set", "u", "1", "web", {}), 0)
    changes.expire(LANDED_US, {})

    assert changes.saved()._changes == {}
