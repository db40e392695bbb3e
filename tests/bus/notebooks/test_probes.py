"""What each kind of answer means; rows B1 to B13 of docs/wrong-input.md."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.clock import parse_stamp
from bus.notebooks import code_server, gpu, jupyter, pod_cpu, traffic
from bus.notebooks.catalogue import PROBES
from bus.notebooks.contract import ApiRequest
from bus.notebooks.prober import ProbeResponse, Unanswered
from tests.bus.notebooks.notebooks import UNREACHABLE, answer, peer

NOW = "2024-08-14T12:00:00Z"
NOW_US = parse_stamp(NOW)
STARTED = "2024-08-14T06:00:00Z"
NB = peer(started_us=parse_stamp(STARTED))


def kernel(state="idle", at="2024-08-14T11:00:00.123456Z", **fields):
    return {"id": "k", "name": "python3", "execution_state": state, "last_activity": at} | fields


def kernels(*entries, terminals=()):
    replies = [answer(list(entries)), answer(list(terminals))]
    return jupyter.reads(replies, NB, NOW_US)[0]


def kernels_of(reply, terminals=None):
    return jupyter.reads([reply, terminals or answer([])], NB, NOW_US)[0]


def stamp(us):
    return None if us is None else us - NOW_US


def test_the_newest_idle_kernel_tells_the_activity():
    found = kernels(kernel(at="2024-08-14T11:00:00Z"), kernel(at="2024-08-14T11:30:00+00:00"))

    assert (parse_stamp("2024-08-14T11:30:00Z"), False) == (found.active_us, found.busy)


@pytest.mark.parametrize("status", [301, 302, 307, 401, 403])
def test_a_server_that_wants_a_log_in_refuses(status):
    found = kernels_of(ProbeResponse(status, b""))

    assert ("refused", f"http_{status}") == (found.outcome, found.fault)


@pytest.mark.parametrize("status", [201, 204, 404, 500, 503])
def test_any_other_status_is_unreachable(status):
    assert "unreachable" == kernels_of(ProbeResponse(status, b"[]")).outcome


@pytest.mark.parametrize("fault", ["timed_out", "closed_early", "too_large", "encoded"])
def test_no_answer_is_unreachable_for_its_fault(fault):
    found = kernels_of(Unanswered(fault))

    assert ("unreachable", fault) == (found.outcome, found.fault)


BODIES = {
    "HTML": b"<html>login</html>",
    "nothing": b"",
    "an object": b"{}",
    "null": b"null",
    "a list of numbers": b"[1]",
    "NaN": b"[NaN]",
    "a byte order mark": b"\xef\xbb\xbf[]",
    "bad UTF-8": b'["\xff"]',
    "two equal keys": b'[{"a":1,"a":2}]',
    "deep JSON": b"[" * 100_000 + b"]" * 100_000,
    "half of it": b'[{"id":',
    "a huge integer": b"[" + b"9" * 5_000 + b"]",
    "1,001 kernels": b"[" + b",".join([json.dumps(kernel()).encode()] * 1_001) + b"]",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
def test_a_body_that_is_no_list_of_kernels_is_malformed(body):
    started = time.process_time()

    assert "malformed" == kernels_of(ProbeResponse(200, body)).outcome
    assert time.process_time() - started < 0.1


@pytest.mark.parametrize(
    "state", ["busy", "dead", "restarting", "zombie", "", None, 7, ["idle"], "IDLE"]
)
def test_any_state_but_idle_is_busy(state):
    assert kernels(kernel(state)).busy


def test_a_kernel_without_a_state_is_busy():
    assert kernels({"id": "k", "last_activity": NOW}).busy


def test_one_busy_kernel_among_a_thousand_is_busy():
    assert kernels(*[kernel()] * 999, kernel("busy")).busy


@pytest.mark.parametrize(
    "at",
    ["", None, 5, "yesterday", "2024-08-14T11:00:00", "2024-08-14 11:00:00Z", "2024-13-01T00:00:00Z"],
)  # fmt: skip
def test_an_idle_kernel_without_a_readable_time_is_malformed(at):
    assert ("malformed", "no_time") == (
        (found := kernels(kernel(), kernel(at=at))).outcome,
        found.fault,
    )


def test_a_busy_kernel_needs_no_time():
    found = kernels(kernel("busy", at=None), kernel(at=None))

    assert ("ok", True, None) == (found.outcome, found.busy, found.active_us)


@pytest.mark.parametrize(
    ("at", "seconds", "flags"),
    [
        ("2024-08-14T12:02:00Z", 120, ()),
        ("2024-08-14T12:02:00.000001Z", 0, ("future",)),
        ("9999-12-31T23:59:59Z", 0, ("future",)),
        ("2024-08-14T05:59:59Z", -21_600, ("before_start",)),
        ("0001-01-01T00:00:00Z", -21_600, ("before_start",)),
        ("2024-08-14T11:59:59.123456789Z", -0.876544, ()),
    ],
)
def test_a_time_is_believed_as_far_as_it_can_be_true(at, seconds, flags):
    found = kernels(kernel(at=at))

    assert (int(seconds * 1_000_000), flags) == (stamp(found.active_us), found.flags)


def test_a_kernel_that_starts_unconnected_is_on_its_own_account():
    found = kernels(kernel("starting", at="2024-08-14T11:50:00Z", connections=0))

    assert (False, None, -600_000_000) == (
        found.busy,
        found.active_us,
        stamp(found.starting_since_us),
    )


@pytest.mark.parametrize("connections", [1, "1", True, 1.5])
def test_a_kernel_that_starts_with_a_client_is_busy(connections):
    found = kernels(kernel("starting", connections=connections))

    assert (True, True) == (found.busy, found.connected)


@pytest.mark.parametrize(
    ("terminals", "outcome"),
    [
        (answer([]), "ok"),
        (answer(b"", 404), "ok"),
        (answer(b"", 403), "malformed"),
        (UNREACHABLE, "malformed"),
        (answer([{"name": "1"}]), "malformed"),
    ],
    ids=["none", "switched off", "refused", "unreachable", "without times"],
)
def test_no_kernels_count_only_beside_what_is_known_of_terminals(terminals, outcome):
    assert outcome == kernels_of(answer([]), terminals).outcome


def test_terminals_that_cannot_be_read_do_not_spoil_kernels():
    found = jupyter.reads([answer([kernel()]), answer(b"", 500)], NB, NOW_US)

    assert ["ok", "unreachable"] == [e.outcome for e in found]


def test_a_terminal_tells_its_activity():
    terminals = [{"name": "1", "last_activity": "2024-08-14T11:00:00Z"}]

    found = jupyter.reads([answer([]), answer(terminals)], NB, NOW_US)[1]

    assert (parse_stamp("2024-08-14T11:00:00Z"), {"terminals": 1}) == (
        found.active_us,
        found.counters,
    )


def test_nothing_of_a_name_travels():
    secret = "\x1b[31m<script>AKIA-SECRET\n"
    entry = kernel("idle", name=secret, id=secret, path=secret, reason=secret) | {secret: secret}

    assert "SECRET" not in repr(kernels(entry, terminals=[{"name": secret, "last_activity": NOW}]))


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"status": "alive", "lastHeartbeat": NOW_US // 1_000 - 90_000}, -90),
        ({"status": "expired", "lastHeartbeat": NOW_US // 1_000 - 7_200_000}, -7_200),
        ({"status": "alive", "lastHeartbeat": NOW_US // 1_000 + 999_000_000}, 0),
        ({"status": "expired", "lastHeartbeat": 0}, None),
    ],
    ids=["alive", "expired", "ahead", "never"],
)
def test_code_server_tells_its_last_heartbeat(body, seconds):
    (found,) = code_server.reads([answer(body)], NB, NOW_US)

    assert ("ok", seconds) == (
        found.outcome,
        None if seconds is None else stamp(found.active_us) // 1_000_000,
    )


@pytest.mark.parametrize(
    "body", [{}, [], {"lastHeartbeat": "1"}, {"lastHeartbeat": True}, {"lastHeartbeat": -1}]
)
def test_a_healthz_without_a_heartbeat_is_malformed(body):
    assert "malformed" == code_server.reads([answer(body)], NB, NOW_US)[0].outcome


ISTIO = b"""# TYPE istio_requests_total counter
istio_requests_total{reporter="destination",source_workload="istio-ingressgateway",path="}\\"{"} 41
istio_requests_total{source_workload="istio-ingressgateway"} 1 1723636800000
istio_requests_total{source_workload="bursar"} 900
envoy_http_downstream_rq_total{envoy_http_conn_manager_prefix="inbound_0.0.0.0_8888"} 1000
envoy_http_downstream_cx_upgrades_active{envoy_http_conn_manager_prefix="inbound"} 2
envoy_http_downstream_cx_upgrades_active{envoy_http_conn_manager_prefix="admin"} 5
"""


def test_only_the_gateway_counts_as_traffic_of_a_mesh():
    (found,) = traffic.reads([answer(ISTIO)], NB, NOW_US)

    assert ({"requests": 42, "websockets": 2}, True, None) == (
        found.counters,
        found.connected,
        found.active_us,
    )


def test_a_mesh_without_a_visitor_yet_has_no_requests():
    (found,) = traffic.reads([answer(ISTIO.splitlines()[3] + b"\n")], NB, NOW_US)

    assert 0 == found.counters["requests"]


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"istio_requests_total NaN", b"istio_requests_total -1", b"istio_requests_total 1e999",
     b"istio_requests_total{", b"istio_requests_total 1e9999999999"],
)  # fmt: skip
def test_counters_that_are_none_are_malformed(body):
    assert "malformed" == traffic.reads([answer(body)], NB, NOW_US)[0].outcome


DCGM = """# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
DCGM_FI_DEV_GPU_UTIL{{gpu="0",pod="nb-0",namespace="team-a"}} {util}
DCGM_FI_DEV_GPU_UTIL{{gpu="1",pod="other",namespace="team-a"}} 99
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0",GPU_I_ID="1",pod="{pod}",namespace="team-a"}} {engine}
"""


@pytest.mark.parametrize(
    ("pod", "util", "engine", "permille", "busy"),
    [
        ("nb-0", 50, "0.009999", 9, False),
        ("nb-0", 0, "0.01", 10, True),
        ("other", 0, "0.9", 0, False),
        ("other", 1, "0.9", 10, True),
    ],
    ids=["engine idle", "engine busy", "device idle", "device busy"],
)
def test_a_gpu_is_busy_from_one_percent_of_its_engine(pod, util, engine, permille, busy):
    body = DCGM.format(pod=pod, util=util, engine=engine).encode()

    (found,) = gpu.reads([answer(body)], NB, NOW_US)

    assert (permille, busy) == (found.counters["duty_permille"], found.busy)


def test_labels_that_a_scraper_renamed_are_read():
    body = b'DCGM_FI_DEV_GPU_UTIL{pod="exporter",exported_pod="nb-0",exported_namespace="team-a"} 7'

    assert 70 == gpu.reads([answer(body)], NB, NOW_US)[0].counters["duty_permille"]


def test_an_exporter_that_does_not_name_the_pod_says_nothing_of_it():
    namesake = b'DCGM_FI_DEV_GPU_UTIL{pod="nb-0",namespace="team-b"} 7'

    assert "malformed" == gpu.reads([answer(namesake)], NB, NOW_US)[0].outcome


@pytest.mark.parametrize(
    ("usage", "millicores", "active"),
    [(["199999999n"], 199, False), (["150m", "50m"], 200, True), (["1"], 1_000, True)],
)
def test_a_pod_that_uses_cpu_is_active(usage, millicores, active):
    containers = [{"name": "c", "usage": {"cpu": cpu}} for cpu in usage]
    body = {"timestamp": "2024-08-14T11:59:00Z", "window": "20s", "containers": containers}

    (found,) = pod_cpu.reads([answer(body)], NB, NOW_US)

    assert (millicores, -60_000_000 if active else None) == (
        found.counters["cpu_milli"],
        stamp(found.active_us),
    )


def test_a_cluster_without_the_metrics_api_gives_no_evidence():
    assert () == pod_cpu.reads([answer(b"", 404)], NB, NOW_US)


@pytest.mark.parametrize(
    "body", [{}, {"timestamp": NOW, "containers": []}, {"timestamp": NOW, "containers": [{}]},
             {"timestamp": NOW, "containers": [{"usage": {"cpu": "1e99"}}]},
             {"containers": [{"usage": {"cpu": "1"}}]}],
)  # fmt: skip
def test_metrics_that_are_none_are_malformed(body):
    assert "malformed" == pod_cpu.reads([answer(body)], NB, NOW_US)[0].outcome


@pytest.mark.parametrize("kind", PROBES, ids=[kind.name for kind in PROBES])
@given(body=st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just(NOW),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["execution_state", "last_activity", "connections",
        "lastHeartbeat", "timestamp", "containers", "usage", "cpu"]), inner, max_size=4),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_whatever_comes_back_becomes_evidence(kind, body):
    asked = kind.asks(peer(counters_port=1, exporter="10.0.0.9")) or (ApiRequest("/"),)

    found = kind.reads([ProbeResponse(200, body)] * len(asked), NB, NOW_US)

    assert all(
        e.outcome in ("ok", "malformed") and (e.active_us or 0) <= NOW_US + 120_000_000
        for e in found
    )
