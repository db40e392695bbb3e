"""`kubectl bursar` through a real API server: its proxy, its tokens, its RBAC. Who has no right is refused, whatever it says."""

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml

from deploy.commands.installation import Mode, Size, installation
from tests.acceptance.admission_site import endpoints
from tests.cluster.api import MERGE, ApiError, eventually
from tests.cluster.processes import free_port
from tests.deploy.ledgers import make_ledger, process

pytestmark = pytest.mark.kube

BIN = Path(sys.executable).parent
SYSTEM = "/api/v1/namespaces/bursar-system"


def applied(plane):
    """The objects of an installation that answers questions, without its pods."""
    made = [one.object for one in installation(Size.STANDARD, Mode.WATCH, (), "x", api=True)]
    [workload] = [one for one in made if one["metadata"]["name"] == "bursar-api" and one["kind"] == "Deployment"]  # fmt: skip
    made = [one for one in made if one["kind"] not in ("StatefulSet", "Deployment")]
    [service] = [one for one in made if one["metadata"]["name"] == "bursar-api" and one["kind"] == "Service"]  # fmt: skip
    # Nobody else writes its endpoints then.
    del service["spec"]["selector"]
    plane.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": made}))  # fmt: skip
    return workload["spec"]["template"]


def behind(plane, template, port):
    """The pod of the manifests as the Service's only one, at an address of this machine; the proxy goes to pods alone."""
    [address] = endpoints(port)["endpoints"][0]["addresses"]
    spec = template["spec"] | {"schedulerName": "nobody"}
    plane.api.request("POST", f"{SYSTEM}/pods", {"metadata": {"name": "bursar-api-0"}, "spec": spec})  # fmt: skip
    status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
    plane.api.request("PATCH", f"{SYSTEM}/pods/bursar-api-0/status", status, content_type=MERGE)
    target = {"kind": "Pod", "namespace": "bursar-system", "name": "bursar-api-0"}
    found = {"addresses": [{"ip": address, "targetRef": target}], "ports": [{"name": "questions", "port": port}]}  # fmt: skip
    plane.api.request("POST", f"{SYSTEM}/endpoints", {"metadata": {"name": "bursar-api"}, "subsets": [found]})  # fmt: skip
    return address


class Site:
    """A ledger, `bursar api` on the account that its manifests give it, and people with kubeconfigs."""

    def __init__(self, plane, folder):
        self.plane, self.folder, self.port = plane, folder, free_port()
        (folder / "data").mkdir()
        self.data = make_ledger(folder / "data")
        self.address = behind(plane, applied(plane), self.port)
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "BURSAR_DATA": str(self.data), "BURSAR_API__PORT": str(self.port),
            "KUBECONFIG": str(self.person("api", "bursar-system", "bursar-api")),
        }  # fmt: skip
        self.log = (folder / "api.log").open("ab")
        self.process = subprocess.Popen([BIN / "bursar", "api"], env=environment, stdout=self.log, stderr=self.log)  # fmt: skip
        eventually(lambda: "answering" in (folder / "api.log").read_text(), seconds=60)

    def person(self, name, namespace, account):
        """A kubeconfig of a service account."""
        token = self.plane.kubectl("create", "token", account, "-n", namespace).strip()
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(self.plane.kubeconfig.read_text().replace(self.plane.token, token))
        return path

    def ask(self, kubeconfig, *words):
        """(exit code, stdout, stderr) of the plugin as kubectl calls it, without a data folder."""
        clean = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "KUBECONFIG": str(kubeconfig)}
        done = subprocess.run([BIN / "kubectl-bursar", *words], env=clean, capture_output=True, text=True, timeout=120)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def end(self):
        self.process.terminate()
        self.process.wait(15)
        self.log.close()


def _is_active(plane):
    return plane.api.request("GET", SYSTEM)["status"]["phase"] == "Active"


@pytest.fixture(scope="module")
def site(plane, tmp_path_factory):
    # Another file may just have deleted its own.
    eventually(lambda: not plane.api.answers(SYSTEM) or _is_active(plane), seconds=60)
    made = Site(plane, tmp_path_factory.mktemp("questions"))
    for name in ("reading", "tenant"):
        plane.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        plane.api.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": name}})  # fmt: skip
    bound = {
        "metadata": {"name": "reading"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "bursar-questions"},
        "subjects": [{"kind": "ServiceAccount", "name": "reading", "namespace": "reading"}],
    }  # fmt: skip
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces"
    plane.api.request("POST", f"{rbac}/bursar-system/rolebindings", bound)
    # A tenant may do what tenants may, in a namespace of its own.
    edits = bound | {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": "tenant"}],
    }
    plane.api.request("POST", f"{rbac}/tenant/rolebindings", edits)
    yield made
    made.end()
    for name in ("reading", "tenant", "bursar-system"):
        plane.api.request("DELETE", f"/api/v1/namespaces/{name}")
    # Others make them again.
    eventually(lambda: not plane.api.answers("/api/v1/namespaces/bursar-system"), seconds=60)


def test_whoever_has_the_role_gets_the_answers_of_the_command_line(site):
    reader = site.person("reader", "reading", "reading")
    code, out, err = site.ask(reader, "report", "--by", "team", "-o", "json")
    here = process("report", "--by", "team", "-o", "json", BURSAR_DATA=str(site.data))
    table = site.ask(reader, "acct", "-n", "ns", "--at", "3")
    here_then = process("acct", "-n", "ns", "--at", "3", BURSAR_DATA=str(site.data))
    absent = site.ask(reader, "quota", "show", "none")

    assert (code, out) == (0, here.stdout), err
    assert "as of event 5" in err
    assert (table[0], table[1]) == (0, here_then.stdout), table
    assert "as it was after event 3" in table[2]
    assert absent[0] == 1 and "none" in absent[2]
    assert yaml.safe_load(site.ask(reader, "report", "-o", "yaml")[1])


def test_a_tenant_with_edit_gets_nothing_by_the_plugin_nor_beside_it(site):
    tenant = site.person("tenant", "tenant", "tenant")
    by_reader = site.ask(tenant, "report")
    by_itself = site.ask(tenant, "report", "--account", "tenant/tenant")
    made = {"spec": {"audiences": ["bursar-api"], "expirationSeconds": 600}}
    own = site.plane.api.request("POST", "/api/v1/namespaces/tenant/serviceaccounts/tenant/token", made)  # fmt: skip

    assert by_reader[0] == by_itself[0] == 8
    assert "serviceaccounts/token" in by_reader[2] and "services/proxy" in by_itself[2]
    # It reaches the port all the same, with a token of its own that was made for Bursar.
    found = direct(site, Authorization=f"Bearer {own['status']['token']}")
    assert (found.status_code, found.json()["reason"]) == (403, "Forbidden")
    assert "tenant:tenant may not get report" in found.json()["message"]


def direct(site, path="report", **headers):
    authority = site.data / "api" / "current.pem"
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    with httpx.Client(verify=context, trust_env=False, timeout=60) as client:
        return client.get(f"https://{site.address}:{site.port}/v1/{path}", headers=headers)


def test_a_forged_header_and_a_token_of_the_api_server_itself_are_nobody(site):
    forged = {"X-Remote-User": "system:admin", "X-Remote-Group": "system:masters", "Impersonate-User": "system:admin"}  # fmt: skip
    for headers in (forged, {"Authorization": f"Bearer {site.plane.token}"}, {"Authorization": "Bearer x.y.z"}):  # fmt: skip
        found = direct(site, **headers)
        assert (found.status_code, found.json()["reason"]) == (401, "Unauthorized"), headers
    # The administrator's own request by the proxy shows no token: the proxy keeps it.
    with pytest.raises(ApiError) as refused:
        site.plane.api.request("GET", f"{SYSTEM}/services/https:bursar-api:questions/proxy/v1/report")  # fmt: skip
    assert refused.value.status == 401


def test_an_account_with_the_role_in_its_namespace_sees_that_and_no_other(site):
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings"
    site.plane.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    bound = {
        "metadata": {"name": "asks"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bursar-questions"},
        "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": "tenant"}],
    }  # fmt: skip
    site.plane.api.request("POST", rbac, bound)
    token = site.plane.kubectl("create", "token", "tenant", "-n", "tenant", "--audience", "bursar-api").strip()  # fmt: skip
    bearer = {"Authorization": f"Bearer {token}"}
    own, whole = direct(site, "acct?namespace=ns", **bearer), direct(site, "acct", **bearer)

    assert own.status_code == 200 and {row["namespace"] for row in own.json()["answer"]} == {"ns"}
    assert whole.status_code == 403
