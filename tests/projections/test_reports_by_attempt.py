"""Reports by training job, attempt and cause: together always what the pods held, and never what came after their moment."""

from itertools import combinations

import pytest

from bus.events.pods import Owner
from projections import reports
from tests import factories as given
from tests.projections.attempts import lived
from tests.projections.ledger import folded

END = 10_000
DIMENSIONS = ("team", "job", "attempt", "cause", "node")


def asked(by, as_of=END, events=None, how=reports.report, store=None, **more):
    """Milli-core-seconds and pods by group."""
    store = store or folded(given.numbered(list(events or lived())))
    question = reports.Question(by=by, as_of_s=given.START_S + as_of, **more)
    with store.engine.connect() as connection:
        rows = how(connection, question)
    return {row.key: (row.sums.cpu_milli_s, row.sums.pods) for row in rows}


def test_what_restarts_lost_has_its_cause_and_node():
    found = asked(("job", "cause", "node"))
    lost = {key: cpu for key, (cpu, _) in found.items() if key[1] is not None}

    assert lost == {
        ("train", "deleted", "d"): 600_000,
        ("train", "evicted", "c"): 1_800_000,
        ("train", "exit 137", "a"): 3_600_000,
    }
    assert asked(("job",))[None,] == (7_000 * END, 1)


def test_attempts_are_numbered():
    found = asked(("attempt",))

    assert {key: pods for key, (_, pods) in found.items()} == {(1,): 4, (2,): 3, (None,): 1}


@pytest.mark.parametrize("as_of", [1_000, 3_650, 3_700, 3_701, 9_000])
def test_what_is_replaced_later_than_the_moment_of_the_question_is_not_lost_yet(as_of):
    found = asked(("attempt", "cause"), as_of)

    # The pod that exits with 137 is replaced at second 3,700.
    assert ((1, "exit 137") in found) == (as_of > 3_700)


@pytest.mark.parametrize("how", [reports.report, reports.sums])
@pytest.mark.parametrize("period", [(None, None), (100, 4_000)], ids=["all", "some"])
def test_any_groups_are_together_what_the_pods_held(how, period):
    from_s, to_s = (at and given.START_S + at for at in period)
    store = folded(given.numbered(list(lived())))
    told = {"how": how, "store": store, "from_s": from_s, "to_s": to_s}
    ((whole, _),) = asked((), **told).values()
    for by in combinations(DIMENSIONS, 2):
        assert sum(cpu for cpu, _ in asked(by, **told).values()) == whole


@pytest.mark.parametrize("index", ["", "0" * 63, "-1", "NaN", "1e9"])
def test_labels_of_ones_own_choice_make_no_more_than_a_strange_slot(index):
    labels = {"job-name": "x", "replica-type": "worker", "replica-index": index}
    pods = [
        given.pod_observed(
            uid, number, number, name=uid, created=number, cpu="1", owner=Owner("TFJob", "x", "j"),
            labels={f"training.kubeflow.org/{key}": value for key, value in labels.items()},
        )
        for number, uid in enumerate(("p", "q"), 1)
    ]  # fmt: skip
    found = asked(("job", "attempt"), events=pods)

    assert sum(pods for _, pods in found.values()) == 2
