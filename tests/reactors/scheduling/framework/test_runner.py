"""The framework: what is kept gives what is computed anew, ties follow the seed, hooks mean what they say."""

from typing import ClassVar

import msgspec
import numpy as np
import pytest

from reactors.scheduling.framework.contract import Code, Cycle, Refused, Status
from reactors.scheduling.framework.explaining import explained
from reactors.scheduling.framework.profiles import Enabled, Profile
from reactors.scheduling.framework.runner import Framework, ScoreRangeError
from reactors.scheduling.plugins.catalogue import default_profile
from reactors.scheduling.plugins.sorting.priority_sort import PrioritySort
from tests.reactors.scheduling.worlds import World, asked, changed, random_world


def chosen(framework, pod, sequence=1):
    found = framework.choose(Cycle(pod, framework.context), sequence)
    scores = {name: one.tolist() for name, one in found.scores.items()}
    return found.row, found.rows.tolist(), found.totals.tolist(), scores, found.reason


@pytest.mark.parametrize("seed", range(25))
def test_what_is_kept_of_equal_pods_is_what_is_computed_anew(seed):
    world, random = random_world(seed)
    framework = Framework(default_profile("bursar"), world.context)
    for step in range(20):
        changed(world, random)
        pod = world.pod(f"waits{step}", **asked(random))

        assert chosen(Framework(default_profile("bursar"), world.context), pod) == chosen(
            framework, pod
        )


@pytest.mark.parametrize("seed", range(25))
def test_the_explanation_is_of_the_choice(seed):
    world, random = random_world(seed)
    framework = Framework(default_profile("bursar"), world.context)
    pod = world.pod("p", **asked(random))
    row, rows, *_ = chosen(framework, pod)
    found = explained(framework, pod, 1)

    assert found.node == (framework.columns.names[row] if row >= 0 else "")
    assert found.feasible == len(rows)
    assert bool(found.changes) == (row < 0)


class Toy(msgspec.Struct, frozen=True):
    """Says what it is told to."""

    name: ClassVar[str] = "Toy"
    is_local: ClassVar[bool] = False
    status: Status | None = None
    refuses: tuple[bool, ...] = ()
    scores: tuple[int, ...] = (0, 0, 0)

    def pre_filter(self, cycle):
        return self.status

    def filter(self, cycle, rows):
        return [Refused("toy", np.array(self.refuses)[rows])] if self.refuses else []

    def score(self, cycle, rows):
        return np.array(self.scores)[rows]


class Other(Toy, frozen=True):
    name: ClassVar[str] = "Other"


def framework(*plugins):
    world = World().node("a").node("b").node("c")
    enabled = [Enabled(one, weight) for one, weight in plugins]
    profile = Profile("toys", (Enabled(PrioritySort()), *enabled))
    return Framework(profile, world.context), world


def only(*rows):
    return Status(Code.SUCCESS, nodes=np.isin(range(3), rows))


MEET = "node(s) didn't satisfy plugin(s) [Other Toy] simultaneously"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Toy(Status(Code.SKIP), (True, True, True)), Other(), ([0, 1, 2], "")),
        (Toy(only(0, 1)), Other(only(1, 2)), ([1], "")),
        (Toy(only(0)), Other(only(2)), ([], MEET)),
        (Toy(Status(Code.UNSCHEDULABLE, "one")), Other(Status(Code.UNRESOLVABLE, "two")), ([], "two")),
        (Toy(Status(Code.UNSCHEDULABLE, "one")), Other(Status(Code.UNSCHEDULABLE, "two")), ([], "two")),
        (Toy(refuses=(True, False, False)), Other(refuses=(False, False, True)), ([1], "")),
    ],
    ids=["skip skips the filter", "sets meet", "sets that do not meet", "unresolvable stops", "the last reason", "filters"],
)  # fmt: skip
def test_pre_filter_and_filter(first, second, expected):
    run, world = framework((first, 1), (second, 1))
    _, rows, _, _, reason = chosen(run, world.pod("p"))

    assert (rows, reason) == expected


def test_scores_are_weighted_and_summed():
    run, world = framework((Toy(scores=(10, 20, 30)), 2), (Other(scores=(50, 20, 0)), 1))
    row, _, totals, _, _ = chosen(run, world.pod("p"))

    assert (row, totals) == (0, [70, 60, 60])


@pytest.mark.parametrize("scores", [(0, 101, 0), (0, -1, 0)])
def test_a_score_outside_of_its_range_fails_the_cycle(scores):
    run, world = framework((Toy(scores=scores), 1))
    with pytest.raises(ScoreRangeError):
        chosen(run, world.pod("p"))


def test_one_node_that_fits_is_not_scored():
    run, world = framework((Toy(refuses=(True, False, True), scores=(0, 999, 0)), 1))

    assert chosen(run, world.pod("p")) == (1, [1], [0], {}, "")


def test_ties_are_a_function_of_uid_and_sequence_and_reach_every_node():
    run, world = framework((Toy(), 1))
    pod = world.pod("p")
    rows = [chosen(run, pod, sequence)[0] for sequence in range(40)]

    assert rows == [chosen(run, pod, sequence)[0] for sequence in range(40)]
    assert set(rows) == {0, 1, 2}


def test_the_message_is_that_of_kube_scheduler():
    world = World()
    for name in ("a", "b", "c"):
        world.node(name, allocatable={"cpu": "1", "memory": "1Gi", "pods": "0"})
    world.node("d", unschedulable=True)
    framework = Framework(default_profile("bursar"), world.context)
    found = explained(framework, world.pod("p", cpu="2", memory="1Gi"), 1)

    assert found.message == (
        "0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient cpu, 3 Too many pods."
    )
    assert found.changes[0] == "uncordon node d (node d)"
