"""Reservations that may mean a pod: all that the rules say mean it, also when they change, and few of the others."""

from random import Random

import msgspec
import pytest

from bus.events.constraints import LabelSelector, Requirement
from bus.events.pods import OwnerObject, ReservationOwner
from reactors.scheduling.reservations.candidates import ReservationCandidates
from reactors.scheduling.reservations.rules import Applicant, Reference, owns


class Row(msgspec.Struct):
    """What is read of a reservation."""

    uid: str
    owners: tuple[ReservationOwner, ...]


def text(dice, most=4):
    return f"t{dice.randrange(most)}"


def selector(dice):
    labels = {f"k{n}": text(dice) for n in range(dice.randrange(3))}
    one = Requirement(f"k{dice.randrange(3)}", dice.choice(["In", "Exists"]), (text(dice),))
    return LabelSelector(labels or None, (one,) if dice.random() < 0.2 else None)


def named(dice):
    return OwnerObject(
        uid=text(dice) if dice.random() < 0.4 else "", name=text(dice) if dice.random() < 0.4 else "",
        namespace=text(dice, 2) if dice.random() < 0.3 else "",
    )  # fmt: skip


def owner(dice):
    parts = (dice.random() < chance for chance in (0.3, 0.3, 0.6))
    return ReservationOwner(
        *(make(dice) if is_there else None for make, is_there in zip((named, named, selector), parts, strict=True))
    )  # fmt: skip


def applicant(dice):
    references = tuple(
        Reference("Job", text(dice), text(dice), "", True) for _ in range(dice.randrange(2))
    )
    labels = {f"k{n}": text(dice) for n in range(3) if dice.random() < 0.7}
    return Applicant(text(dice, 2), text(dice), text(dice), labels=labels, references=references)


@pytest.mark.parametrize("seed", range(20))
def test_all_that_mean_a_pod_are_found_in_the_order_of_uids(seed):
    dice, candidates, rows = Random(seed), ReservationCandidates(), {}
    for number in range(200):
        uid = f"r{dice.randrange(40):02}"
        if dice.random() < 0.3:
            candidates.remove(uid)
            rows.pop(uid, None)
        else:
            rows[uid] = Row(uid, tuple(owner(dice) for _ in range(dice.randrange(3))))
            candidates.put(rows[uid])
        pod = applicant(dice)
        found = candidates.of(pod)
        wanted = [uid for uid in sorted(rows) if owns(rows[uid].owners, pod)]

        assert set(wanted) <= set(found) <= set(rows), number
        assert found == sorted(found)


def test_of_many_with_a_label_of_their_own_one_is_looked_at():
    candidates = ReservationCandidates()
    for number in range(500):
        labels = {"app": f"app-{number}", "team": "a"}
        candidates.put(Row(f"r{number:03}", (ReservationOwner(None, None, LabelSelector(labels)),)))
    labels = {"app": "app-7", "team": "a"}

    assert len(candidates.of(Applicant("ns", "p", labels=labels))) <= 2
