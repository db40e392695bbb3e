"""Releases that several processes made in turns, each of which had read to another place."""

from types import SimpleNamespace

import pytest

from bus.envelope import Event
from projections.quota_trees import Tree
from reactors.rederive import releases
from reactors.rederive.releases import QueueLook, Releases


class Reader:
    def __init__(self):
        self.sequence = 0
        self.view = self.lines = SimpleNamespace()

    def reach(self, sequence):
        assert sequence >= self.sequence
        self.sequence = sequence


@pytest.mark.parametrize("behind", [(0,), (0, 5), (0, 5, 9)])
def test_each_of_some_processes_that_take_turns_has_a_reader_of_its_own(monkeypatch, behind):
    monkeypatch.setattr(releases, "_compared", lambda *_, **__: [])
    made = []
    walk = Releases(lambda: made.append(Reader()) or made[-1])
    for at in range(10, 200, 10):
        for less in behind:
            event = Event("c", "admission.released", "t", "i", "s", 0, b"", 1, at + 1)
            walk.apply(Tree("t"), QueueLook("t", at - less, at), [(event, None)])

    assert len(behind) == len(made)
