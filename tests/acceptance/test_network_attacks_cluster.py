"""A neighbor on the network attacks the webhook of `bursar up`, while users go on at a real API server."""

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections import Counter

import pytest

from tests.acceptance.admission_site import Site, free_port, workload
from tests.benchmarks.reviews import create, deployment
from tests.reactors.webhook.configuration import admission_configuration
from tests.reactors.webhook.serving import client_certificate

pytestmark = [pytest.mark.kube, pytest.mark.slow]

#: More than the 1,024 files that a process may usually open.
IDLE = 1_100


@pytest.fixture
def start_site(start_plane, tmp_path):
    """Starts a cluster whose API server shows a certificate to webhooks, and Bursar beside it."""
    sites = []

    def start(**environment):
        client = client_certificate(tmp_path / "apiserver.pem")
        flags = [f"--admission-control-config-file={admission_configuration(tmp_path, client)}"]
        site = Site(start_plane(controllers=True, apiserver_flags=flags), tmp_path)
        site.client = client
        site.environment = {"BURSAR_ADMISSION__HEALTH_PORT": str(free_port()), **environment}
        sites.append(site)
        return site

    yield start
    for site in sites:
        site.stop()


@contextlib.contextmanager
def idle_connections(port, count):
    """So many connections that say nothing."""
    with contextlib.ExitStack() as opened:
        for _ in range(count):
            opened.enter_context(socket.create_connection(("127.0.0.1", port), 5))
        yield


def forged(site, certificate="", count=20):
    """What a neighbor's own reviews are answered, which charge the quota of a team: the verdict, or `lost`."""
    item = deployment(1, replicas=9)
    item["metadata"]["labels"]["biz.group.resource.quota"] = "team"
    context = ssl.create_default_context(cafile=site.folder / "data" / "webhook" / "current.pem")
    if certificate:
        context.load_cert_chain(certificate)
    return Counter(_forged(site.port, context, create(n, item)) for n in range(count))


def _forged(port, context, body):
    asked = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    with contextlib.closing(asked):
        try:
            asked.request("POST", "/admit", body, {"content-type": "application/json"})
            answer = json.loads(asked.getresponse().read())
        except (OSError, http.client.HTTPException):
            return "lost"
    return "allowed" if answer["response"]["allowed"] else answer["response"]["status"]["reason"]


@contextlib.contextmanager
def nested_bodies(site, threads=4):
    """Neighbors that post 3 MiB of nested lists without end; gives what they were answered so far."""
    item = deployment(1)
    item["metadata"]["annotations"] = "HERE"
    item["metadata"]["labels"]["biz.group.resource.quota"] = "team"
    nested = b",".join([b"[" * 60 + b"]" * 60] * 25_000)
    body = create(1, item).replace(b'"HERE"', b"[" + nested + b"]")
    context = ssl.create_default_context(cafile=site.folder / "data" / "webhook" / "current.pem")
    answers, ends = Counter(), threading.Event()

    def attack():
        while not ends.is_set():
            answers[_forged(site.port, context, body)] += 1

    attackers = [threading.Thread(target=attack) for _ in range(threads)]
    for one in attackers:
        one.start()
    try:
        yield answers
    finally:
        ends.set()
        for one in attackers:
            one.join()


def held(site):
    return site.quota()["status"]["used"].get("limits.cpu", "0")


def test_a_forged_review_is_refused_in_the_handshake_and_charges_nothing(start_site, tmp_path):
    """Without a certificate, and with one of another authority; the API server's own reviews are answered."""
    site = start_site(BURSAR_ADMISSION__HOST="0.0.0.0")
    site.environment |= {
        "BURSAR_ADMISSION__CLIENT_CA": str(site.client),
        "BURSAR_ADMISSION__CLIENT_NAMES": json.dumps(["apiserver"]),
    }
    site.begin()
    stranger = client_certificate(tmp_path / "stranger.pem")

    assert [forged(site), forged(site, stranger)] == [{"lost": 20}, {"lost": 20}]
    assert forged(site, site.client, 1) == {"allowed": 1}
    assert "created" in site.apply(workload("Job", "eight", 1, 1))
    assert "over-quota" in site.apply(workload("Job", "eleven", 1, 11))
    assert held(site) in ("0", "1", "9", "10")


def test_enforce_without_client_certificates_does_not_start_on_a_reachable_address(start_site):
    site = start_site(BURSAR_ADMISSION__HOST="0.0.0.0")
    process = site.start("up")
    process.wait(60)

    assert process.returncode == 2
    assert "admission.client_ca" in (site.folder / "up.log").read_text()


def test_over_quota_is_refused_in_time_beside_1100_idle_connections(start_site):
    """`bursar up` may open 1,024 files; without bounds the connections would take all of them, and end it."""
    site = start_site()
    site.files = 1_024
    site.begin()
    process = site._processes[0]
    with idle_connections(site.port, IDLE):
        time.sleep(3)
        began = time.monotonic()
        refused = site.apply(workload("Job", "eleven", 1, 11))
        took = time.monotonic() - began
        admitted = site.apply(workload("Job", "two", 1, 2))
        site.until(lambda: held(site) == "2")

    assert "over-quota" in refused
    assert "created" in admitted
    assert took < 10
    assert process.poll() is None


def test_over_quota_is_refused_in_time_beside_nested_bodies(start_site):
    """Each of them held the event loop for seconds, so that every review behind it was late."""
    site = start_site()
    site.begin()
    with nested_bodies(site) as answers:
        site.until(lambda: answers.total() > 8)
        refused = [site.apply(workload("Job", f"eleven-{n}", 1, 11)) for n in range(5)]
        admitted = site.apply(workload("Job", "two", 1, 2))

    assert all("over-quota" in said for said in refused)
    assert "created" in admitted
    # One that is read too late is refused as well.
    assert "unreadable-object" in answers
    assert set(answers) <= {"unreadable-object", "bursar-unavailable"}
