"""What `bursar manifests` prints, as a real API server takes it: every object, and its pods as `restricted`."""

import itertools
import json
import re
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from deploy.cli.program.program import run_command
from deploy.commands.installation import FOLDER, Mode, Size, identity
from tests.cluster.api import ApiError
from tests.deploy.installations import CASES, objects, pod, workloads

pytestmark = pytest.mark.kube
OBSERVE = FOLDER / "observe"
DOCS = Path(__file__).parents[2] / "docs"
PODS = "/api/v1/namespaces/bursar-system/pods?dryRun=All"


@pytest.fixture(scope="module")
def installed(plane):
    """The shared control plane; the namespaces alone are there."""
    made = [o for o in objects(*CASES[-1]) if o["kind"] == "Namespace"]
    plane.kubectl("apply", "--server-side", "-f", "-", input=listed(made))
    yield plane
    for one in made:
        plane.api.request("DELETE", f"/api/v1/namespaces/{one['metadata']['name']}")


def listed(found):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": found})


def test_the_server_takes_every_object_of_every_size_and_mode(installed):
    """A dry run of the server: it checks all fields, admission policies included, and stores nothing."""
    variants = {}
    for one in (o for case in CASES for o in objects(*case)):
        variants.setdefault(identity(one), {})[json.dumps(one, sort_keys=True)] = one
    rounds = itertools.zip_longest(*(found.values() for found in variants.values()))
    told = [
        installed.kubectl(
            "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-",
            input=listed([one for one in some if one is not None]),
        )
        for some in rounds
    ]  # fmt: skip

    assert "".join(told).count("(server dry run)") == sum(map(len, variants.values())) > 40


def test_the_namespace_takes_the_pods_and_none_with_more_privileges(installed):
    """Pod Security admission, level `restricted`."""

    def refused(spec):
        made = {"metadata": {"generateName": "p-"}, "spec": spec}
        try:
            installed.api.request("POST", PODS, made)
        except ApiError as error:
            return str(error)
        return ""

    for case in CASES:
        for workload in workloads(*case):
            # Volumes that are claimed are made by the controller of StatefulSets.
            claims = workload["spec"].get("volumeClaimTemplates", ())
            claimed = [{"name": o["metadata"]["name"], "persistentVolumeClaim": {"claimName": "c"}} for o in claims]  # fmt: skip
            spec = pod(workload)
            assert refused({**spec, "volumes": spec["volumes"] + claimed}) == ""
    loose = {**spec, "hostNetwork": True}
    assert "restricted" in refused(loose)
    assert "restricted" in refused({**spec, "securityContext": {}})


def dry_run(monkeypatch, capsys, kubeconfig, *options):
    """(exit code, object to change) of `bursar install --dry-run`."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    code = run_command(["install", "--dry-run", "-o", "json", *options])
    return code, {o["object"]: o for o in json.loads(capsys.readouterr().out)}


def test_what_would_change_is_told_before_it_does(start_plane, monkeypatch, capsys, tmp_path):
    """Nothing is there, all of it, another image; and an account that may not install is told so."""
    plane = start_plane()
    code, first = dry_run(monkeypatch, capsys, plane.kubeconfig)
    plane.kubectl(
        "apply",
        "-f",
        "-",
        input=listed(objects(Size.SMALL, Mode.WATCH, image=f"bursar:{metadata.version('bursar')}")),
    )
    _, second = dry_run(monkeypatch, capsys, plane.kubeconfig)
    _, third = dry_run(
        monkeypatch, capsys, plane.kubeconfig, "--image", "r/b:2", "--mode", "shadow"
    )
    token = plane.kubectl("create", "token", "bursar", "--namespace=bursar-system").strip()
    (tmp_path / "bursar").write_text(plane.kubeconfig.read_text().replace(plane.token, token))
    last, fourth = dry_run(monkeypatch, capsys, tmp_path / "bursar")

    assert (code, {o["change"] for o in first.values()}) == (0, {"new"})
    assert {o["change"] for o in second.values()} == {"same"}
    assert "spec.template.spec.containers" in third["StatefulSet/bursar"]["fields"]
    assert third["ClusterRole/bursar-registrar"]["change"] == "new"
    assert "list, watch: jobs, cronjobs" in third["ClusterRole/bursar-reader"]["grants"]
    assert third["ClusterRole/bursar-registrar"]["purpose"].startswith("Answering reviews")
    assert (last, {o["change"] for o in fourth.values()}) == (1, {"refused"})


def test_the_kustomization_of_the_docs_changes_what_is_printed(installed, tmp_path):
    [text] = re.findall(
        r"```yaml\n# kustomization.yaml\n(.*?)```", (DOCS / "install.md").read_text(), re.S
    )
    printed = "---\n".join(json.dumps(one) + "\n" for one in objects(Size.SMALL, Mode.SHADOW))
    (tmp_path / "bursar.yaml").write_text(printed)
    (tmp_path / "kustomization.yaml").write_text(text)
    made = installed.kubectl("kustomize", str(tmp_path))
    found = {identity(one): one for one in yaml.safe_load_all(made)}
    [workload] = [one for (kind, *_), one in found.items() if kind == "StatefulSet"]

    assert found.keys() == {identity(one) for one in objects(Size.SMALL, Mode.SHADOW)}
    assert workload["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"
    assert {"name": "BURSAR_CLUSTER__NAME", "value": "prod"} in pod(workload)["containers"][0][
        "env"
    ]


def test_dashboard_and_alerts_are_config_maps_as_grafana_and_prometheus_read_them(installed):
    """By kubectl's own kustomize, from the files that tests/deploy/test_observing.py runs each query of."""
    printed = installed.kubectl("kustomize", str(OBSERVE))
    installed.kubectl("apply", "-k", str(OBSERVE), "--dry-run=server")
    made = {one["metadata"]["name"]: one for one in yaml.safe_load_all(printed)}
    data = {name: one["data"] for name, one in made.items()}
    labelled = [n for n, one in made.items() if "grafana_dashboard" in one["metadata"]["labels"]]
    [provider] = yaml.safe_load(data["bursar-grafana"]["bursar.yaml"])["providers"]

    assert {one["kind"] for one in made.values()} == {"ConfigMap"}
    assert {one["metadata"]["namespace"] for one in made.values()} == {"bursar-system"}
    assert data["bursar-dashboard"] == {"bursar.json": (OBSERVE / "dashboard.json").read_text()}
    assert data["bursar-alerts"] == {"bursar.yaml": (OBSERVE / "alerts.yaml").read_text()}
    assert labelled == ["bursar-dashboard"]
    assert (provider["type"], provider["options"]["path"][0]) == ("file", "/")
