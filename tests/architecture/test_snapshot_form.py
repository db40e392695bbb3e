"""What snapshots hold is written down here: where a fold gives another state in the same shape, their form has to be another.

A snapshot is read by who has the same version: form, rules and shape. Neither shows that a fold changed, and a process would
go on from what the old one knew. So the state after a part of the recorded day is compared with the one that was written down.
"""

import hashlib

import msgspec

from projections.engine.snapshots import FORM
from reactors.catalogue import REACTORS
from reactors.engine.replica import Replica
from reactors.engine.snapshots import reader_of
from tests.reactors.engine.restoring import folded, readers_of
from tests.recording import recorded

WRITTEN_DOWN = {
    "form": 3,
    "day": "89234d1f24d236a0",
    "versions": "c199a70297a65069",
    "reactors": "05dee9244d780b1d",
    "admission": "0e455d2a1c142dc2",
}

ADVICE = """
What snapshots hold has changed. Where the form, the version and the day are as they were written down and a state is not, a fold
changed: raise FORM in projections/engine/snapshots.py. Then write this down in place of what stands there:

"""


def plain(value):
    """Plain values, whose text is the same in every process."""
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return [type(value).__name__, *((name, plain(getattr(value, name))) for name in fields)]
    if isinstance(value, dict):
        return sorted((repr(key), plain(one)) for key, one in value.items())
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return bytes(value) if isinstance(value, msgspec.Raw) else value


def digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def test_a_fold_that_gives_another_state_has_another_form():
    history = recorded()[:4_000]
    replica = folded(Replica(REACTORS, history[0].cluster), history, [], decides_on=lambda _: False)
    own = {name: state.saved() for name, state in replica.states.items()}
    states = {
        "reactors": plain(msgspec.structs.replace(replica.saved(), own={})) + plain(own),
        "admission": plain(readers_of(history).saved()),
    }
    found = {
        "form": FORM,
        "day": digest([(event.id, event.body) for event in history]),
        "versions": digest([reader_of(one).version for one in (replica, readers_of([]))]),
        **{name: digest(state) for name, state in states.items()},
    }

    assert found == WRITTEN_DOWN, ADVICE + f"WRITTEN_DOWN = {found}"


def test_the_state_that_is_written_down_says_something():
    """Another history gives another one."""
    history = recorded()[:4_000]

    assert digest(plain(readers_of(history).saved())) != digest(
        plain(readers_of(history[:3_900]).saved())
    )


def test_a_question_about_who_waits_changes_nothing():
    """Only events change it: else a snapshot tells who asked, and differs from the fold of the history."""
    history = recorded()[:4_000]
    replica = folded(Replica(REACTORS, history[0].cluster), history, [], decides_on=lambda _: False)
    lines = replica.states["evictions"].lines
    before = plain(lines.saved())
    waiting = list(lines.held())

    assert (before, waiting) == (plain(lines.saved()), list(lines.held()))
