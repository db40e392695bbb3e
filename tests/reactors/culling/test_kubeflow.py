"""Kubeflow parity beyond the cases: stamps and replies as Go reads them."""

import json

import pytest

from bus.notebooks.go_json import Kernel, kernels_in
from bus.notebooks.prober import ProbeResponse as Reply
from reactors.culling import kubeflow
from reactors.culling.kubeflow import CHECKED_AT, LAST_ACTIVITY, Notebook, Stamp
from reactors.culling.kubeflow import reconcile_with_terminals as fork

NOON = Stamp.parse("2024-08-14T12:00:00.5Z")


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T00:00:00.1234567Z", 123_456_700),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:59:59.999999999Z", -1),
    ],
)
def test_a_stamp_is_kept_to_the_nanosecond(text, ns):
    assert ns == Stamp.parse(text).ns


@pytest.mark.parametrize(
    "text", ["", "now", "2024-08-14T12:00:00", "2016-12-31T23:59:60Z", "2024-02-30T00:00:00Z"]
)
def test_what_go_refuses_is_no_stamp(text):
    assert Stamp.parse(text) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2024-08-14T12:00:00.999+05:30", "2024-08-14T12:00:00+05:30"),
        ("2024-08-14T12:00:00-03:15", "2024-08-14T12:00:00-03:15"),
        ("2024-08-14T12:00:00+00:00", "2024-08-14T12:00:00Z"),
    ],
)
def test_a_stamp_keeps_its_offset_and_loses_its_fraction(text, shown):
    assert shown == Stamp.parse(text).text()


@pytest.mark.parametrize(
    ("body", "kernels"),
    [
        (b'[{"Execution_State":"idle"}] trailing', [Kernel("", "idle")]),
        (b"[null]", [Kernel()]),
        (b'[{"execution_state":null,"x":[1]}]', [Kernel()]),
        (b'[{"connections":1.0}]', None),
        (b'[{"connections":true}]', None),
        (b'[{"connections":9223372036854775808}]', None),
        (b'[{"id":NaN}]', None),
        (b"[1]", None),
        (b"[" * 100_000, None),
        (b"", None),
    ],
)
def test_a_reply_is_read_as_go_reads_it(body, kernels):
    assert kernels == kernels_in(Reply(200, body))


def idle_at(text):
    return Reply(200, json.dumps([{"execution_state": "idle", "last_activity": text}]).encode())


def reconcile(notebook, *, kernels, **more):
    return kubeflow.reconcile(notebook, kernels=kernels_in(kernels), **more)


def notebook(last):
    return Notebook("n", "nb", {LAST_ACTIVITY: last, CHECKED_AT: "2024-08-14T11:00:00Z"})


def last_after(controller, stored, seen, **more):
    done = controller(
        notebook(stored),
        pod_exists=True,
        kernels=idle_at(seen),
        idle_minutes=600,
        period_minutes=1,
        now=NOON,
        **more,
    )
    return done.annotations[LAST_ACTIVITY]


def test_the_stored_activity_moves_backwards_upstream_and_not_in_the_fork():
    stored, older = "2024-08-14T11:30:00Z", "2024-08-14T10:00:00Z"

    assert older == last_after(reconcile, stored, older)
    assert stored == last_after(fork, stored, older, terminals=None)


def test_a_stored_activity_of_now_does_not_pass_for_a_busy_kernel():
    assert "garbage" == last_after(fork, "garbage", "2024-08-14T12:00:00Z", terminals=None)


def test_the_fork_reads_no_more_than_a_mebibyte():
    padded = Reply(200, idle_at("2024-08-14T11:59:00Z").body.replace(b"[", b"[" + b" " * 2**20))
    done = fork(
        notebook("2024-08-14T11:30:00Z"), pod_exists=True, kernels=padded, terminals=None,
        idle_minutes=600, period_minutes=1, now=NOON,
    )  # fmt: skip

    assert "2024-08-14T11:30:00Z" == done.annotations[LAST_ACTIVITY]


def test_period_zero_initialises_and_probes_within_one_pass():
    done = reconcile(
        Notebook("n", "nb"), pod_exists=True, kernels=idle_at("2024-08-14T11:59:00Z"),
        idle_minutes=60, period_minutes=0, now=NOON,
    )  # fmt: skip

    assert ("keep", 2, 0) == (done.decision, done.writes, done.requeue_seconds)
