"""`small`, from an empty cluster to refusals: what `bursar manifests` prints is applied, and its pod runs from the image.

The container is that of the StatefulSet as the API server stores it: its command, its variables, its user, its read-only root, and
the token of its own service account. The simulator plays the kubelet of all other pods.
"""

import asyncio
import base64
import json
import pathlib
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from contextlib import AsyncExitStack, contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from bus.embedded import EmbeddedServer
from tests.acceptance.admission_site import endpoints, quota, workload
from tests.acceptance.containers import TOKENS, Container, end, missing, secret, volume
from tests.acceptance.registering import apply
from tests.cluster.api import Api
from tests.reactors.webhook.configuration import admission_configuration
from tests.reactors.webhook.serving import client_certificate

pytestmark = [
    pytest.mark.kube,
    pytest.mark.slow,
    pytest.mark.waits,
    pytest.mark.skipif(bool(missing()), reason=f"no container: {missing()}"),
]
ACCOUNTS = {"bursar", "bursar-actor"}
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
#: What nobody is given, asked for all the same.
OTHERS = (
    ("", "secrets"), ("", "configmaps"), ("", "pods/exec"), ("", "serviceaccounts/token"), ("", "nodes/proxy"),
    ("apps", "statefulsets"), ("rbac.authorization.k8s.io", "clusterrolebindings"), ("batch", "jobs"),
)  # fmt: skip


class Installation:
    """A cluster, what is applied to it, and the pod that it says."""

    def __init__(self, plane, image, folder, client):
        self.plane, self.image, self.folder, self.client = plane, image, folder, client
        self.data = volume(folder / "data")
        #: Folders that pods see besides their volumes.
        self.shared = {}
        self.number = 0

    def apply(self, *options):
        """What a person types, with the pipe in between."""
        printed = subprocess.run(
            [str(pathlib.Path(sys.executable).parent / "bursar"), "manifests", *options], capture_output=True, text=True, check=True
        ).stdout  # fmt: skip
        self.plane.kubectl("apply", "-f", "-", input=printed)
        return list(yaml.safe_load_all(printed))

    def register(self, container, process):
        """What an administrator types beside the pod, once its authority is there."""
        command = ("bursar", "manifests", "--registration")
        code, printed = container.ask(process, *command)
        assert code == 0, printed
        apply(self.plane, printed)

    def reviewed(self):
        """Whether the API server asks for reviews by now: it reads a registration some time after it stored it."""
        return "over-quota" in self.create(workload("Job", "much", 9, 1), dry_run=True)

    def keep(self, name, **files):
        """A Secret, as its users make it; of names `_` is a dot."""
        content = {key.replace("_", "."): text for key, text in files.items()}
        made = {"metadata": {"name": name, "namespace": "bursar-system"}, "stringData": content}
        self.create({"apiVersion": "v1", "kind": "Secret", **made})

    @contextmanager
    def pod(self, workload="statefulset/bursar", **more):
        """A pod of a workload, as it is stored now; its container runs, and answers its probe. `more`: variables."""
        spec = self.stored(workload)["spec"]["template"]["spec"]
        self.number += 1
        folder = self.folder / str(self.number)
        volumes = {"data": self.data, "tmp": volume(folder / "tmp"), **self.shared}
        for one in (o for o in spec["volumes"] if "secret" in o):
            kept = self.stored(f"secret/{one['secret']['secretName']}")["data"]
            files = {name: base64.b64decode(text).decode() for name, text in kept.items()}
            volumes[one["name"]] = secret(folder / one["name"], files)
        token = ""
        if spec.get("automountServiceAccountToken", True):
            account = spec["serviceAccountName"]
            token = self.plane.kubectl("-n", "bursar-system", "create", "token", account).strip()
            mounted = {"token": token, "ca.crt": self.plane.ca_file.read_text(), "namespace": "x"}
            volumes[TOKENS] = secret(folder / "token", mounted)
        server = {"KUBERNETES_SERVICE_HOST": "127.0.0.1"}
        server["KUBERNETES_SERVICE_PORT"] = self.plane.url.rpartition(":")[2]
        container = Container(self.image, spec, volumes, environment=server | more)
        self.log = folder / "log"
        with self.log.open("ab") as log:
            process = container.start(log)
        try:
            port = more.get("BURSAR_ADMISSION__HEALTH_PORT", "9444")
            probe = spec["containers"][0]["livenessProbe"]["httpGet"]
            self.until(lambda: answers(f"http://127.0.0.1:{port}{probe['path']}"), 90)
            yield container, process, Api(self.plane.url, token, str(self.plane.ca_file))
        finally:
            end(process)

    def stored(self, named):
        return json.loads(self.plane.kubectl("-n", "bursar-system", "get", named, "-o", "json"))

    def until(self, holds, seconds=120):
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.2)

    def create(self, *objects, dry_run=False):
        """What kubectl prints; what it complains of is the text too."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        tried = ["--dry-run=server"] if dry_run else []
        try:
            return self.plane.kubectl("apply", *tried, "-f", "-", input=json.dumps(items))
        except RuntimeError as error:
            return str(error)

    def used(self):
        found = json.loads(self.plane.kubectl("get", "bgrq", "team", "-o", "json"))
        return found.get("status", {}).get("used", {}).get("limits.cpu")


@pytest.fixture
def installation(start_plane, built_image, tmp_path):
    client = client_certificate(tmp_path / "kube-apiserver.pem")
    configuration = admission_configuration(tmp_path, client)
    flags = ("--enable-aggregator-routing=true", f"--admission-control-config-file={configuration}")
    plane = start_plane(controllers=True, scheduler=True, simulator=True, apiserver_flags=flags)
    plane.create_nodes(2)
    return Installation(plane, built_image, tmp_path, client)


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as found:
            return found.status == 200
    except OSError:
        return False


def granted(objects, account):
    """(group, resource, verb, name) of each rule that is bound to an account for the whole cluster."""
    roles = {
        one["roleRef"]["name"]
        for one in objects
        if one["kind"] == "ClusterRoleBinding" and account in {s["name"] for s in one["subjects"]}
    }
    return {
        (group, resource, verb, name)
        for one in objects
        if one["kind"] == "ClusterRole" and one["metadata"]["name"] in roles
        for rule in one["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def may(api, group, resource, verb, name):
    """What `kubectl auth can-i` says to the token's owner."""
    plain, _, subresource = resource.partition("/")
    attributes = {
        "group": group,
        "resource": plain,
        "subresource": subresource,
        "verb": verb,
        "name": name,
    }
    body = {"spec": {"resourceAttributes": {**attributes, "namespace": "default"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return api.request("POST", path, body)["status"]["allowed"]


def test_what_reads_only_counts_usage_and_may_nothing_else(installation):
    objects = installation.apply()
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "vision", "labels": {"bursar.io/team": "vision"}},
    }
    job = workload("Job", "train", 3, 2)
    job["metadata"]["namespace"] = "vision"
    assert "created" in installation.create(namespace, job)
    with installation.pod() as (container, process, api):

        def used():
            code, said = container.ask(process, "bursar", "report", "--by", "team", "-o", "json")
            rows = {row["team"]: row for row in json.loads(said)} if code == 0 else {}
            return rows.get("vision", {}).get("core_hours")

        installation.until(used)
        rights = granted(objects, "bursar")
        asked = {(g, r, verb, n) for g, r, _, n in rights for verb in VERBS}
        asked |= {(group, resource, verb, "") for group, resource in OTHERS for verb in VERBS}

        assert {one for one in asked if may(api, *one)} == rights
        assert container.ask(process, "bursar", "status")[0] == 0
    pods = json.loads(
        installation.plane.kubectl("-n", "bursar-system", "get", "pods", "-o", "json")
    )["items"]
    assert [one["metadata"]["name"] for one in pods] == ["bursar-0"], "its controller may make it"
    assert (
        "ermission" not in installation.log.read_text()
        and "rror" not in installation.log.read_text()
    )


def test_it_goes_from_reading_to_refusing_and_survives_a_kill(installation):
    """A refusal through the Service, a forged review, a kill -9, and a workload that was made while nobody answered."""
    installation.apply()
    with installation.pod():
        pass
    installation.apply("--mode", "shadow")
    installation.create(endpoints(9443), quota("team", {"limits.cpu": "4"}))
    with installation.pod() as (container, process, _):
        installation.register(container, process)
        installation.until(lambda: "created" in installation.create(workload("Job", "much", 9, 1)))
        installation.until(lambda: installation.used() == "9")
        installation.plane.kubectl("delete", "job", "much")
        installation.until(lambda: installation.used() == "0", 90)
    installation.keep("bursar-clients", ca_crt=installation.client.read_text())
    objects = installation.apply("--mode", "enforce")
    with installation.pod() as (container, process, api):
        installation.register(container, process)
        installation.until(lambda: container.ask(process, "bursar", "status")[0] == 0)
        installation.until(installation.reviewed)
        assert "created" in installation.create(workload("Job", "three", 3, 1))
        assert "over-quota" in installation.create(workload("Job", "two", 2, 1))
        assert forged() == "refused in the handshake"
        wanted = granted(objects, "bursar")
        assert {one for one in wanted if not may(api, *one)} == set()
    assert "created" in installation.create(workload("Job", "away", 2, 1))
    with installation.pod():
        installation.until(lambda: installation.used() == "5", 90)
        installation.until(installation.reviewed)
        assert "over-quota" in installation.create(workload("Job", "late", 1, 1))


async def test_standard_answers_reviews_apart_on_servers_of_ones_own(
    installation, postgres_url, tmp_path
):
    """Each process with its own Secrets: one bus, one PostgreSQL, and no token for who answers and who writes the ledger."""
    url = "bursar-webhook.bursar-system.svc"
    pem = client_certificate(tmp_path / "serving.pem", url).read_text()
    async with EmbeddedServer(tmp_path / "nats") as nats, AsyncExitStack() as stack:
        bus = {
            "url": nats.url.replace("//", f"//bursar:{nats.credentials[1]}@"),
            "monitor_urls": [nats.monitor_url],
        }
        installation.apply()
        installation.keep("bursar-clients", ca_crt=installation.client.read_text())
        installation.keep("bursar-webhook-tls", tls_crt=pem, tls_key=pem, ca_crt=pem)
        ledger = {"url": postgres_url}
        socket_folder = parse_qs(urlsplit(postgres_url).query)["host"][0]
        installation.shared = {socket_folder: socket_folder}
        # The server's folder is of its own user; the pod's may reach the socket in it.
        pathlib.Path(socket_folder).chmod(0o711)
        # It would not start again in a folder that others may enter.
        stack.callback(pathlib.Path(socket_folder).chmod, 0o700)
        installation.keep("bursar-settings", bursar_yaml=json.dumps({"bus": bus, "ledger": ledger}))
        installation.keep("bursar-webhook-settings", bursar_yaml=json.dumps({"bus": bus}))
        installation.plane.kubectl("delete", "-n", "bursar-system", "statefulset", "bursar")
        installation.apply("--size", "standard", "--mode", "enforce")
        installation.create(endpoints(9443), quota("team", {"limits.cpu": "4"}))
        await asyncio.to_thread(standard, installation)


def standard(installation):
    with (
        installation.pod("statefulset/bursar-ledger", BURSAR_ADMISSION__HEALTH_PORT="9446"),
        installation.pod("statefulset/bursar-watch", BURSAR_ADMISSION__HEALTH_PORT="9447"),
        installation.pod("statefulset/bursar-act") as (container, process, _),
        installation.pod("deployment/bursar-webhook", BURSAR_ADMISSION__HEALTH_PORT="9445"),
    ):
        installation.register(container, process)
        installation.until(lambda: answers("http://127.0.0.1:9445/readyz"))
        installation.until(lambda: installation.used() == "0", 60)
        installation.until(installation.reviewed)
        assert "created" in installation.create(workload("Job", "three", 3, 1))
        assert "over-quota" in installation.create(workload("Job", "two", 2, 1))


def forged():
    """What becomes of a review that somebody without the API server's certificate sends."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", 9443), 5) as opened:
        try:
            with context.wrap_socket(opened) as secured:
                secured.sendall(b"POST /admit HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
                return secured.recv(100).decode() or "refused in the handshake"
        except (ssl.SSLError, ConnectionError):
            return "refused in the handshake"
