"""The reference of the settings, `bursar config show`, modes as YAML reads them, and clusters that were named wrongly."""

import json
from pathlib import Path

import pytest

from deploy.cli.program.exits import Exit
from deploy.errors import SettingsError
from deploy.settings.load import cluster_access, load
from deploy.settings.reference import keys, page
from tests.deploy.ledgers import process

CONTEXTS = (
    "{current-context: prod, contexts: [{name: prod, context: {}}, {name: staging, context: {}}]}"
)


@pytest.fixture
def home(monkeypatch, tmp_path):
    """A home without any cluster."""
    import os

    for name in list(os.environ):
        if name.startswith(("BURSAR_", "KUBE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_the_reference_is_what_the_models_say():
    stored = Path(__file__).parents[2] / "docs" / "settings.md"

    assert stored.read_text() == page(), "python -m deploy.settings.reference > docs/settings.md"


def test_every_setting_has_a_meaning_and_a_variable():
    assert [key.name for key in keys() if not key.meaning] == []
    assert len({name for key in keys() for name in key.variables}) >= len(list(keys()))


@pytest.mark.parametrize("key", list(keys()), ids=lambda key: key.name)
def test_the_variable_of_each_setting_sets_it(home, monkeypatch, key):
    """A wrong value is refused by the name of the variable, or taken: the variable is known in both cases."""
    for name in key.variables:
        monkeypatch.setenv(name, "{")
        try:
            load()
        except SettingsError as error:
            assert "there is no such setting" not in str(error)
        monkeypatch.delenv(name)


def shown(*arguments, **environment):
    found = process(*arguments, "config", "show", "-o", "json", **environment)
    assert found.returncode == 0, found.stderr
    return {row["key"]: row for row in json.loads(found.stdout)}


@pytest.mark.long
def test_config_show_says_where_each_value_comes_from(tmp_path):
    file = tmp_path / "bursar.yaml"
    file.write_text("cluster:\n  name: filed\n  relist_seconds: 60\nculling:\n  mode: on\n")
    found = shown(
        "--config", file, "--data", tmp_path,
        BURSAR_CLUSTER__NAME="varied", BURSAR_BUS="nats://me:hunter2@h:4222", BURSAR_LABELS='{"team": "t"}',
        BURSAR_CULLING__WARN_URL="https://hooks/hunter2",
    )  # fmt: skip

    assert {key: (found[key]["value"], found[key]["from"]) for key in (
        "data", "cluster.name", "cluster.relist_seconds", "culling.mode", "labels.team", "labels.user",
    )} == {
        "data": (str(tmp_path), "option --data"),
        "cluster.name": ("varied", "variable BURSAR_CLUSTER__NAME"),
        "cluster.relist_seconds": ("60.0", f"{file}, line 3"),
        "culling.mode": ("on", f"{file}, line 5"),
        "labels.team": ("t", "variable BURSAR_LABELS"),
        "labels.user": ("bursar.io/user", "default"),
    }  # fmt: skip
    assert found["bus.url"]["value"] == "nats://me:***@h:4222"
    assert "hunter2" not in str(found)


@pytest.mark.long
def test_config_show_names_a_part_that_is_near(tmp_path):
    found = process("config", "show", "kulling", "--data", tmp_path)

    assert (found.returncode, "is it culling?" in found.stderr) == (Exit.FAILED, True)
    assert process("config", "show", "--changed", "--data", tmp_path).stdout.count("\n") == 3


@pytest.mark.parametrize(
    ("written", "mode"),
    [("on", "on"), ("off", "off"), ("'on'", "on"), ("\"off\"", "off"), ("yes", "on"), ("False", "off"), ("shadow", "shadow")],
)  # fmt: skip
def test_modes_are_taken_as_yaml_reads_them(home, monkeypatch, written, mode):
    file = home / "bursar.yaml"
    file.write_text(
        f"culling: {{mode: {written}}}\nevictions: {{mode: {written}, policy: {{preemption: {written}}}}}\n"
    )
    settings = load(config=file)

    assert (settings.culling.mode, settings.evictions.mode) == (mode, mode)
    assert settings.evictions.policy.preemption == mode
    for one in ("true", "On", "no"):
        monkeypatch.setenv("BURSAR_CULLING__MODE", one)
        assert load().culling.mode == ("off" if one == "no" else "on")


def test_admission_is_off_where_yaml_says_so_and_on_is_none_of_its_modes(home):
    file = home / "bursar.yaml"
    file.write_text("admission: {mode: off}\n")
    assert load(config=file).admission.mode == "off"
    file.write_text("admission: {mode: on}\n")

    with pytest.raises(SettingsError, match=r"line 1: admission.mode: .*'enforce'"):
        load(config=file)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"KUBECONFIG": "/no/such"}, "KUBECONFIG: there is no file /no/such"),
        ({"KUBECONFIG": "/no/such:/nor/this"}, "KUBECONFIG: there is no file /no/such:/nor/this"),
        ({"BURSAR_CLUSTER__KUBECONFIG": "/no/such"}, "cluster.kubeconfig: there is no file /no/such"),
        ({"KUBECONFIG": "CONFIG", "BURSAR_CLUSTER__CONTEXT": "stagin"}, "no context 'stagin'; is it staging?"),
        ({"BURSAR_CLUSTER__CONTEXT": "prod"}, "no context 'prod'; there is no context at all"),
        ({"KUBECONFIG": "BROKEN"}, "no kubeconfig: not YAML"),
        ({"KUBECONFIG": "NOWHERE"}, "its current-context 'gone' is none of them; set cluster.context to one of: prod"),
    ],
    ids=str,
)  # fmt: skip
def test_a_cluster_that_was_named_wrongly_is_an_error_that_names_it(
    home, monkeypatch, environment, said
):
    files = {
        "CONFIG": CONTEXTS,
        "BROKEN": "{a: [",
        "NOWHERE": CONTEXTS.replace("prod,", "gone,", 1),
    }
    for name, content in files.items():
        (home / name).write_text(content)
    for name, value in environment.items():
        monkeypatch.setenv(name, str(home / value) if value in files else value)

    with pytest.raises(SettingsError) as error:
        cluster_access(load())

    assert said in str(error.value)


@pytest.mark.long
def test_up_does_not_play_the_recording_where_a_kubeconfig_was_named(tmp_path):
    found = process("up", "--once", "--data", tmp_path / "d", KUBECONFIG=str(tmp_path / "none"))

    assert (found.returncode, found.stderr.count("\n")) == (Exit.USAGE, 1)
    assert str(tmp_path / "none") in found.stderr
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("context", ["", "staging"])
def test_a_cluster_that_is_there_is_found(home, monkeypatch, context):
    (home / "config").write_text(CONTEXTS)
    monkeypatch.setenv("KUBECONFIG", f"/no/such:{home / 'config'}")
    monkeypatch.setenv("BURSAR_CLUSTER__CONTEXT", context)

    assert cluster_access(load()) is not None


def test_where_no_cluster_is_named_none_is_found(home):
    assert cluster_access(load()) is None
