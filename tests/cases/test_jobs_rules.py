"""The rules that the notes of `tfjob_reconcile` name, and that no case of the visible file has."""

import re

import pytest

from tests.cases import jobs
from tests.cases.files import FILES

#: Six pods of one type: two that run, one of them while it is deleted.
PHASES = ("Failed", "Failed", "Succeeded", "Pending", "Running")
PODS = [{"phase": one, "deleting": False} for one in PHASES] + [
    {"phase": "Running", "deleting": True}
]
COUNTS = {"active": 1, "succeeded": 1, "failed": 3}


#: `BURSAR_CASES` may name a folder with any of the files.
needs_file = pytest.mark.skipif("tfjob_reconcile" not in FILES, reason="tfjob_reconcile is absent")


def case(**expect):
    return {"rule": "replica_counts", "given": {"type": "Worker", "pods": PODS}, "expect": expect}


@needs_file
def test_every_rule_of_the_notes_has_a_runner():
    rules = FILES["tfjob_reconcile"]["notes"]["rules"]
    named = {name for name in rules if name not in ("expect", "others")}
    named |= set(re.findall(r"\w+", rules["others"]))

    assert named - set(jobs.RULES) == set()


@pytest.mark.parametrize("expect", [COUNTS, {"replica_counts": {"Worker": COUNTS}}])
def test_pods_are_counted_by_phase_and_a_running_one_that_is_deleted_has_failed(expect):
    jobs.check(case(**expect))


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_that_differs_fails_the_case(name):
    with pytest.raises(AssertionError):
        jobs.check(case(**COUNTS | {name: COUNTS[name] + 1}))


def test_a_rule_without_a_runner_fails_by_its_name():
    with pytest.raises(pytest.fail.Exception, match=r"'tidy_up'.*replica_counts"):
        jobs.check(case() | {"rule": "tidy_up"})


def test_a_case_may_write_replica_types_in_any_case():
    case = {"rule": "worker0_done", "given": {"workers": [], "replicas": {"worker": 1}}}

    jobs.check(case | {"expect": {"done": False}})


@needs_file
def test_a_job_of_a_case_may_write_replica_types_in_any_case():
    found = next(
        one for one in FILES["tfjob_reconcile"]["cases"] if one["id"] == "n1-local-created"
    )
    given = found["given"]
    given = given | {
        "job": given["job"] | {"replicas": {"wOrKeR": given["job"]["replicas"]["Worker"]}}
    }

    jobs.check(found | {"given": given})
