"""What `bursar manifests` prints: it names what there is, keeps to what pods may be, and brings no right that is not needed."""

import json
from pathlib import Path

import pytest
import yaml

from bus.memory import MemoryTransport
from deploy.cli.program.commands import COMMANDS
from deploy.cli.program.program import run_command
from deploy.commands.installation import MOUNTED, NAMESPACE, Act, Mode, Size, installation
from deploy.errors import SettingsError
from deploy.runtime.admission import admitting
from deploy.settings.load import load
from deploy.settings.shape import Settings
from reactors.webhook.server import WebhookServer
from tests.deploy.installations import ALL_ACTS, CASES, objects, pod, workloads

each = pytest.mark.parametrize(
    ("size", "mode", "acts"), CASES, ids=lambda v: "all" if v == ALL_ACTS else str(v)
)
DOCS = Path(__file__).parents[2] / "docs"


def environment(workload):
    [container] = pod(workload)["containers"]
    assert all(set(one) == {"name", "value"} for one in container["env"]), "no value of a Secret"
    return {one["name"]: one["value"] for one in container["env"]}


@each
def test_every_variable_is_a_setting_and_every_command_is_one(
    size, mode, acts, monkeypatch, tmp_path
):
    file = tmp_path / "bursar.yaml"
    file.write_text("bus: {url: 'nats://n:4222'}\n")
    for workload in workloads(size, mode, acts):
        with monkeypatch.context() as patched:
            for name, value in environment(workload).items():
                patched.setenv(name, str(file) if name == "BURSAR_CONFIG" else value)
            settings = load({})
        [container] = pod(workload)["containers"]
        ports = {one["name"]: one["containerPort"] for one in container["ports"]}
        settings.admission.require_authenticated()
        program, command = container["command"]

        assert program == "bursar" and command in COMMANDS
        # Who watches and who writes the ledger are asked nothing.
        assert command in ("watch", "ledger", "api") or settings.admission.mode == mode
        assert settings.log.format == "json"
        assert ports["health"] == settings.admission.health_port
        assert ports.get("reviews", settings.admission.port) == settings.admission.port
        assert ports.get("questions", settings.api.port) == settings.api.port
        assert (workload["kind"] == "StatefulSet") <= settings.data.is_relative_to("/data")


@each
def test_pods_are_restricted_and_write_to_volumes_only(size, mode, acts):
    """Kubernetes, "Pod Security Standards": restricted; a real API server says the same in tests/cluster."""
    for workload in workloads(size, mode, acts):
        spec = pod(workload)
        [container] = spec["containers"]
        mounted = {one["name"] for one in container["volumeMounts"]}
        volumes = {one["name"] for one in spec["volumes"]}
        claimed = {o["metadata"]["name"] for o in workload["spec"].get("volumeClaimTemplates", ())}

        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert mounted == volumes | claimed
        assert not set(spec) & {"hostNetwork", "hostPID", "hostIPC"}
        assert spec["enableServiceLinks"] is False
        assert not claimed or spec["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


@each
def test_what_keeps_quotas_and_books_goes_last_from_a_node_that_has_no_room(size, mode, acts):
    """Nobody's notebook evicts who says which may be evicted. What answers questions alone may go."""
    for workload in workloads(size, mode, acts):
        is_asked = workload["metadata"]["name"] == "bursar-api"
        critical = None if is_asked else "system-cluster-critical"
        assert pod(workload).get("priorityClassName") == critical


@each
def test_each_account_secret_service_and_setting_of_a_file_is_there_or_in_the_docs(
    size, mode, acts
):
    found = objects(size, mode, acts)
    names = {(o["kind"], o["metadata"]["name"]) for o in found}
    told = (DOCS / "install.md").read_text()
    for workload in workloads(size, mode, acts):
        spec, own = pod(workload), environment(workload)
        secrets = {o["secret"]["secretName"] for o in spec["volumes"] if "secret" in o}
        files = {value for value in own.values() if value.startswith(MOUNTED)}
        folders = {o["mountPath"] for o in spec["containers"][0]["volumeMounts"]}

        assert ("ServiceAccount", spec["serviceAccountName"]) in names
        assert {one for one in secrets if one not in told} == set()
        assert {file.rpartition("/")[0] for file in files} <= folders
        assert [file for file in files if f"`{file.rpartition('/')[2]}`" not in told] == []
    assert len({json.dumps(o["metadata"], sort_keys=True) + o["kind"] for o in found}) == len(found)


@each
def test_a_signing_key_in_a_secret_is_readable_to_its_pod_and_to_nobody_else(size, mode, acts):
    volumes = [one for pod_of in workloads(size, mode, acts) for one in pod(pod_of)["volumes"]]
    own = [one["secret"] for one in volumes if one["name"] == "settings"]

    # Kubernetes mounts 0644 else, which `ledger.signing_key` is refused with.
    assert {one.get("defaultMode", 0o644) for one in own} <= {0o440}


@each
def test_every_service_and_budget_selects_pods_that_answer(size, mode, acts):
    made = objects(size, mode, acts)
    labels = [o["spec"]["template"]["metadata"]["labels"] for o in workloads(size, mode, acts)]
    for one in made:
        if one["kind"] not in ("Service", "PodDisruptionBudget", "NetworkPolicy"):
            continue
        selector = one["spec"].get("podSelector", one["spec"].get("selector"))
        selector = selector.get("matchLabels", selector)
        assert any(selector.items() <= found.items() for found in labels), one["metadata"]["name"]


def verbs(*arguments):
    rules = [rule for one in objects(*arguments) for rule in one.get("rules", ())]
    return {verb for rule in rules if "verbs" in rule for verb in rule["verbs"]}


def test_what_watches_may_only_read_and_is_asked_about_nothing():
    kinds = {one["kind"] for one in objects()}

    assert verbs() == {"get", "list", "watch"}
    assert not {kind for kind in kinds if "Webhook" in kind or "Policy" in kind} - {"NetworkPolicy"}


@pytest.mark.parametrize("act", [Act.CULLING, Act.EVICTIONS, Act.SCHEDULING, Act.JOBS])
def test_each_act_brings_its_own_role_and_the_account_that_has_it(act):
    before = {o["metadata"]["name"] for o in objects() if o["kind"] == "ClusterRole"}
    after = {o["metadata"]["name"] for o in objects(acts=(act,)) if o["kind"] == "ClusterRole"}
    [workload] = workloads(Size.SMALL, Mode.WATCH, (act,))

    assert len(after - before) == 1
    assert pod(workload)["serviceAccountName"] == "bursar-actor"
    assert environment(workload)[f"BURSAR_{act.upper()}__MODE"] == "on"


def test_queues_need_quotas_that_hold():
    with pytest.raises(SettingsError, match="--mode enforce"):
        installation(Size.SMALL, Mode.SHADOW, [Act.QUEUES], "x")


def test_a_floor_needs_who_starts_what_it_holds_back(capsys):
    with pytest.raises(SettingsError, match="--act queues"):
        installation(Size.SMALL, Mode.ENFORCE, [], "x", floor=True)
    options = ["--mode", "enforce", "--act", "queues", "--floor", "-o", "json"]
    assert run_command(["manifests", *options]) == 0

    printed = json.loads(capsys.readouterr().out)["items"]
    assert [o["kind"] for o in printed if o["metadata"]["name"] == "bursar-floor"] == [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]


def by_command(*arguments):
    return {pod(one)["containers"][0]["command"][1]: one for one in workloads(*arguments)}


def test_each_process_has_the_rights_and_secrets_of_its_own_part():
    made = by_command(Size.STANDARD, Mode.ENFORCE, ALL_ACTS)
    tokens = {
        name: pod(one)["serviceAccountName"]
        for name, one in made.items()
        if pod(one).get("automountServiceAccountToken", True)
    }
    secrets = {
        name: {o["secret"]["secretName"] for o in pod(one)["volumes"] if "secret" in o}
        for name, one in made.items()
    }
    told = {name: set(environment(one)) for name, one in made.items()}

    assert tokens == {"watch": "bursar", "act": "bursar-actor", "api": "bursar-api"}
    reviews = {"bursar-clients", "bursar-webhook-tls"}
    assert secrets == {
        "watch": {"bursar-settings"},
        "ledger": {"bursar-settings"},
        "act": {"bursar-settings", *reviews},
        "webhook": {"bursar-webhook-settings", *reviews},
        "api": {"bursar-api-settings"},
    }
    assert environment(made["act"])["BURSAR_ADMISSION__SERVES"] == "false"
    assert "BURSAR_CULLING__MODE" in told["act"] & told["watch"]
    assert "BURSAR_CULLING__MODE" not in told["webhook"] | told["ledger"] | told["api"]


def test_a_large_installation_has_each_process_twice_and_drains_one_at_a_time():
    made = by_command(Size.LARGE, Mode.ENFORCE)
    budgets = [o for o in objects(Size.LARGE, Mode.ENFORCE) if o["kind"] == "PodDisruptionBudget"]

    found = {name: one["spec"]["replicas"] for name, one in made.items()}
    assert found == {"watch": 2, "ledger": 2, "act": 2, "webhook": 3}
    assert {o["metadata"]["name"] for o in budgets} == {f"bursar-{name}" for name in found}
    for one in made.values():
        [spread] = pod(one)["topologySpreadConstraints"]
        selector = spread["labelSelector"]["matchLabels"].items()
        assert selector <= one["spec"]["template"]["metadata"]["labels"].items()
        assert environment(one)["BURSAR_BUS__REPLICAS"] == "3"


def test_each_object_says_what_it_is_for():
    found = installation(Size.LARGE, Mode.ENFORCE, ALL_ACTS, "x")

    assert [one.object["metadata"]["name"] for one in found if len(one.purpose) < 20] == []
    assert all(one.object["metadata"].get("namespace", NAMESPACE) for one in found)


def test_it_is_printed_as_kubectl_reads_it(capsys):
    assert run_command(["manifests", "--image", "r/b:2", "--mode", "shadow"]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert run_command(["manifests", "--image", "r/b:2", "--mode", "shadow", "-o", "json"]) == 0

    assert printed == objects(Size.SMALL, Mode.SHADOW, image="r/b:2")
    assert json.loads(capsys.readouterr().out)["items"] == printed
    assert [pod(o)["containers"][0]["image"] for o in printed if o["kind"] == "StatefulSet"] == [
        "r/b:2"
    ]


async def test_what_only_watches_answers_probes_where_a_port_is_named(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(WebhookServer, "start", lambda server: _noted(started, server))
    for port in (None, 0):
        settings = Settings(data=tmp_path, admission={"mode": "watch", "health_port": port})
        async with admitting(settings, MemoryTransport(), None, keeps=True):
            pass

    assert len(started) == 1


async def _noted(started, server):
    started.append(server)
