"""The numeric cases: every file of a folder, every case of a file, through the product's own path.

Runs the files in this folder, or with ``BURSAR_CASES=DIR`` every case file in DIR (same names, same format, other
numbers). A case for which there is no runner fails with that reason.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.commands.bench_bind import Arrivals, read_scene, replay
from tests.cases import (
    bizrq,
    cpu_allocation,
    culling,
    device_accounting,
    deviceshare,
    elastic,
    expectations,
    gang,
    jobs,
    loadaware_score,
    migration_descheduler,
    openb_ledger,
    openb_small_bind,
    pod_accounting,
    reports,
    reservation,
    scheduler_diagnosis,
    yoda_score,
)
from tests.cases.files import FILES, FOLDER, HERE
from tests.thorough import tries

SHARED = Path(os.environ.get("BURSAR_SHARED") or HERE.parents[2] / "shared")
OPENB = SHARED / "traces" / "openb"

#: File to a function that runs one of its cases and asserts what the case expects.
CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "bizrq": bizrq.check,
    "cpu_allocation": cpu_allocation.check,
    "culling": culling.check,
    "deviceshare": deviceshare.check,
    "expectations": expectations.check,
    "gang": gang.check,
    "loadaware_score": loadaware_score.check,
    "migration_descheduler": migration_descheduler.check,
    "openb_small_bind": openb_small_bind.check,
    "reservation": reservation.check,
    "scheduler_diagnosis": scheduler_diagnosis.check,
    "tfjob_reconcile": jobs.check,
    "yoda_score": yoda_score.check,
}
CHECKS |= elastic.CHECKS
RUNNERS = {"pod_accounting", "device_accounting", "openb_ledger", "openb_fgd_bench", *CHECKS}

#: Parts of one trace's expectation that a test of its own compares.
TRACE_PARTS = (
    "stream", "counts", "totals", "peaks", "peak_gpu_milli_if_acquire_first", "checkpoints",
    "cumulative", "by_day", "deleted_at_last_stamp", "pods",
)  # fmt: skip


def cases_of(name):
    """(id, case) of every case of a file."""
    found = FILES.get(name, {})
    cases = found.get("cases") if isinstance(found, dict) else found
    if isinstance(cases, list):
        return [(str(case.get("id", n)), case) for n, case in enumerate(cases)]
    return [(key, value) for key, value in found.items() if key not in ("notes", "rules")]


def params(name):
    return [pytest.param(case, id=f"{name}-{key}") for key, case in cases_of(name)]


def traces():
    return [trace for trace, _ in cases_of("openb_ledger")]


def test_the_folder_holds_case_files():
    assert FILES, f"no case file in {FOLDER}"


UNKNOWN = [f"{name}: {key}" for name in FILES if name not in RUNNERS for key, _ in cases_of(name)]

if UNKNOWN:

    @pytest.mark.parametrize("case", UNKNOWN)
    def test_a_case_has_a_runner(case):
        known = ", ".join(sorted(RUNNERS))
        pytest.fail(f"no runner for {case}; there are runners for {known}", pytrace=False)


@pytest.mark.parametrize(
    ("name", "case"),
    [pytest.param(n, c, id=f"{n}-{k}") for n in sorted(CHECKS) for k, c in cases_of(n)],
)
def test_the_product_does_what_the_case_says(name, case):
    CHECKS[name](case)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(2, 3)), ids=lambda seed: f"shuffled-{seed or 'not'}")
@pytest.mark.parametrize("case", params("pod_accounting"))
def test_pods_are_accounted_as_the_case_says(case, seed):
    events = pod_accounting.events_of(case["given"])
    if seed:
        events = pod_accounting.shuffled(events, seed)

    told = pod_accounting.told(events, case["given"]["as_of"])

    assert case["expect"] == told


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(tries(2, 3)), ids=lambda seed: f"mixed-{seed or 'not'}")
@pytest.mark.parametrize("case", params("device_accounting"))
def test_devices_are_accounted_as_the_case_says(case, seed):
    events = device_accounting.events_of(case["given"])
    if seed:
        events = device_accounting.mixed(events, seed)

    told = device_accounting.told(events, case["given"]["as_of"], batch=7 if seed else 1000)

    assert case["expect"]["pods"] == told["pods"]
    assert sorted(case["expect"]["reserved"], key=repr) == told["reserved"]
    assert case["expect"]["supply"] == told["supply"]


@pytest.mark.parametrize("seed", range(2), ids=lambda seed: f"mixed-{seed or 'not'}")
@pytest.mark.parametrize("case", params("device_accounting"))
def test_devices_are_asked_for_as_the_case_says(case, seed):
    events = device_accounting.events_of(case["given"])

    assert case["expect"]["demand"] == device_accounting.demand(
        device_accounting.mixed(events, seed) if seed else events
    )


@pytest.mark.parametrize("name", reports.REPORTS)
def test_a_report_gets_the_right_answer(capsys, tmp_path, name):
    reports.check(capsys, tmp_path, reports.REPORTS[name])


@pytest.fixture(scope="session")
def trace_of(tmp_path_factory):
    """The ledger of a trace by name, folded once a run."""
    known = {}

    def get(name):
        pods_file = f"openb_pod_list_{name}.csv"
        if not (OPENB / pods_file).exists():
            pytest.skip(
                f"{OPENB / pods_file} is not there: Alibaba clusterdata, cluster-trace-gpu-v2023 "
                '("openb"); BURSAR_SHARED names the folder that has traces/openb'
            )
        if name not in known:
            path = tmp_path_factory.mktemp(name) / "ledger.db"
            known[name] = openb_ledger.Trace(OPENB, pods_file, path)
        return known[name]

    yield get
    for trace in known.values():
        trace.store.close()


def trace_expects(trace):
    return dict(cases_of("openb_ledger"))[trace]


@pytest.mark.parametrize("trace", traces())
def test_every_expectation_of_a_trace_is_compared(trace):
    known = {*TRACE_PARTS, "events", "sha256", "two_methods_agree"}

    assert set(trace_expects(trace)) - known == set()


@pytest.mark.parametrize("trace", traces())
def test_a_trace_is_the_stream_that_the_case_means(trace, trace_of):
    expected = trace_expects(trace)

    assert (expected["events"], expected["sha256"]) == trace_of(trace).stream()


@pytest.mark.parametrize("trace", traces())
def test_the_pods_of_a_trace_are_counted(trace, trace_of):
    expected = trace_expects(trace)
    found = trace_of(trace)

    assert (expected["pods"], expected["counts"]) == (len(found.pods), found.counts())


@pytest.mark.parametrize(
    ("trace", "group"), [(t, g) for t in traces() for g in trace_expects(t)["totals"]]
)
def test_a_group_of_a_trace_is_charged(trace, group, trace_of):
    expected = trace_expects(trace)["totals"][group]
    told = trace_of(trace).totals[group]

    assert expected == {name: told[name] for name in expected}


@pytest.mark.parametrize("trace", traces())
def test_a_trace_has_no_other_groups(trace, trace_of):
    assert set(trace_expects(trace)["totals"]) == set(trace_of(trace).totals)


@pytest.mark.parametrize("trace", traces())
def test_the_peaks_of_a_trace(trace, trace_of):
    expected = trace_expects(trace)
    found = trace_of(trace)

    assert expected["peaks"] == found.peaks()
    assert expected["peak_gpu_milli_if_acquire_first"] == found.peak_if_acquired_first()


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        pytest.param(t, moment, id=f"{t}-{moment['t']}")
        for t in traces()
        for moment in trace_expects(t)["checkpoints"]
    ],
)
def test_a_moment_of_a_trace(trace, expected, trace_of):
    assert expected == trace_of(trace).checkpoint(expected["t"])


@pytest.mark.parametrize("trace", traces())
def test_the_days_of_a_trace(trace, trace_of):
    assert trace_expects(trace)["by_day"] == trace_of(trace).by_day()


@pytest.mark.parametrize("trace", traces())
def test_everything_a_trace_charges(trace, trace_of):
    assert trace_expects(trace)["cumulative"] == trace_of(trace).charged(2**40)


@pytest.mark.parametrize("trace", traces())
def test_pods_cut_by_the_end_of_a_trace_are_charged_until_it(trace, trace_of, tmp_path):
    expected = dict(trace_expects(trace)["deleted_at_last_stamp"])
    expected.pop("note", None)

    assert expected == trace_of(trace).cut_at(expected["t"], tmp_path / "cut.db")


def references():
    """The published runs of which every placement is known."""
    found = FILES.get("openb_fgd_bench", {}).get("reference", ())
    return [pytest.param(one, id=f"{one['policy']}-{one['seed']}") for one in found]


@pytest.mark.slow
@pytest.mark.computes
@pytest.mark.parametrize("reference", references())
def test_every_pod_of_a_published_run_is_placed_where_it_was(reference):
    if not OPENB.is_dir():
        pytest.skip("the trace openb is not beside the repository")
    trace = reference["trace"].removeprefix("openb_pod_list_")
    scene = read_scene(OPENB, Arrivals(trace, reference["seed"]))
    found = replay(scene, reference["policy"])

    assert reference["placements_sha256"] == found.digest
    assert (reference["failed"], reference["used_gpu_milli"]) == (found.failed, found.used_milli)
    assert reference["alloc"] == {at: found.allocation[int(at)] for at in reference["alloc"]}
