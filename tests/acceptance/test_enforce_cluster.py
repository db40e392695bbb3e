"""`enforce` enforces, and says so: by this machine's address and by a Service, or it does not start."""

import json

import pytest

from tests.acceptance.admission_site import MANIFESTS, Site, endpoints, free_port, workload
from tests.reactors.webhook.configuration import admission_configuration
from tests.reactors.webhook.serving import client_certificate

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.waits]


@pytest.fixture
def start_site(start_plane, tmp_path):
    sites = []

    def start(*flags):
        sites.append(Site(start_plane(controllers=True, apiserver_flags=flags), tmp_path))
        return sites[-1]

    yield start
    for site in sites:
        site.stop()


def status(site):
    """Exit code and answer of `bursar status` beside the running `bursar up`."""
    done = site.ask("status", "-o", "json")
    return done.returncode, json.loads(done.stdout)


def log(site):
    return (site.folder / "up.log").read_text()


@pytest.mark.parametrize("way", ["Ignore", "Fail", "a Service that nobody made"])
def test_enforce_does_not_start_where_no_review_arrives(start_site, way):
    """It stood registered for a Service that no manifest made, enforced nothing, and said healthy."""
    site = start_site()
    nowhere = f"https://127.0.0.1:{free_port()}"
    site.environment = {"BURSAR_ADMISSION__URL": "" if "Service" in way else nowhere}
    if way == "Fail":
        site.environment["BURSAR_ADMISSION__FAILURE_POLICY"] = "Fail"
    process = site.start("up")
    process.wait(120)

    address = "https://bursar-webhook.bursar-system.svc:443" if "Service" in way else nowhere
    assert process.returncode not in (0, None)
    assert f"the API server calls {address}" in log(site)
    assert "docs/webhook.md" in log(site).splitlines()[-1]


def test_status_tells_when_reviews_cease_to_arrive(start_site):
    """An administrator deletes the configuration: nothing is enforced, Bursar cannot make it anew, and says so."""
    site = start_site()
    site.begin()
    site.until(lambda: status(site)[1]["admission"]["proven_us"])
    before = status(site)
    site.plane.kubectl("delete", "validatingwebhookconfiguration", "bursar")
    site.until(lambda: status(site)[1]["admission"]["problem"], 90)
    code, after = status(site)

    assert (before[0], before[1]["healthy"], before[1]["admission"]["problem"]) == (0, True, "")
    assert (code, after["healthy"]) == (7, False)
    assert after["admission"]["problem"] == "a request passed without a review"


def test_reviews_arrive_through_the_service_of_our_manifest(start_site, tmp_path):
    """With client certificates, as in a cluster; the pods behind the Service are this machine's address."""
    client = client_certificate(tmp_path / "apiserver.pem")
    configuration = admission_configuration(tmp_path, client)
    site = start_site(
        "--enable-aggregator-routing=true", f"--admission-control-config-file={configuration}"
    )
    site.plane.kubectl("apply", "-f", str(MANIFESTS / "service.yaml"))
    site.plane.kubectl("apply", "-f", "-", input=json.dumps(endpoints(site.port)))
    site.environment = {
        "BURSAR_ADMISSION__URL": "",
        "BURSAR_ADMISSION__HOST": "0.0.0.0",
        "BURSAR_ADMISSION__CLIENT_CA": str(client),
        "BURSAR_ADMISSION__CLIENT_NAMES": json.dumps(["apiserver"]),
    }
    site.begin()

    assert "created" in site.apply(workload("Job", "ten", 1, 10))
    assert "over-quota" in site.apply(workload("Job", "one", 1, 1))
    _, found = status(site)
    assert found["admission"]["address"] == "https://bursar-webhook.bursar-system.svc:443"
    assert (found["admission"]["problem"], found["healthy"]) == ("", True)


def test_the_webhook_can_run_apart(start_site):
    """`bursar up` keeps the quotas and registers; `bursar webhook` answers, and `up` proves that it does."""
    site = start_site()
    site.environment = {"BURSAR_ADMISSION__SERVES": "false"}
    site.start("up")
    site.until(lambda: "admission is enforce" in log(site))
    # Its bus is the one of `up`.
    site.start("webhook")
    site.until(lambda: status(site)[1]["admission"] is not None, 60)
    site.begin_quotas()

    assert "over-quota" in site.apply(workload("Job", "eleven", 1, 11))
    assert status(site)[1]["admission"]["problem"] == ""
