"""Settings: which place wins, what is refused with which words, and that secrets are never shown."""

from pathlib import Path

import pytest

from deploy.errors import SettingsError
from deploy.runtime.hub import cluster_settings
from deploy.settings.addresses import masked
from deploy.settings.admission import AdmissionSettings
from deploy.settings.load import load


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """An environment without settings, and a home of its own."""
    import os

    for name in list(os.environ):
        if name.startswith("BURSAR_"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


def test_defaults_need_nothing(environment, tmp_path):
    settings = load()

    assert settings.data == tmp_path / ".local/share/bursar"
    assert settings.ledger_url == f"sqlite:///{settings.data / 'ledger.db'}"
    assert settings.bus.is_embedded


def test_options_win_over_the_environment_and_that_over_the_file(environment, tmp_path):
    file = tmp_path / "bursar.yaml"
    file.write_text("data: /file\ncluster: {name: file, relist_seconds: 60}\nbus: {replicas: 3}\n")
    environment.setenv("BURSAR_CLUSTER__NAME", "env")
    environment.setenv("BURSAR_DATA", "/env")
    settings = load({"data": Path("/option")}, file)

    assert (settings.data, settings.cluster.name) == (Path("/option"), "env")
    assert (settings.cluster.relist_seconds, settings.bus.replicas) == (60, 3)


def test_short_forms_are_the_long_ones(environment):
    environment.setenv("BURSAR_LEDGER", "postgres://db/bursar")
    environment.setenv("BURSAR_BUS", "nats://me:secret@nats:4222")
    environment.setenv("BURSAR_NATS_SERVER", "/opt/nats-server")
    settings = load({"data": Path("/d")})

    assert settings.ledger_url == "postgresql+psycopg://db/bursar"
    assert settings.bus.address == ("nats://nats:4222", ("me", "secret"))
    assert settings.bus.server == Path("/opt/nats-server")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cluster:\n  nmae: x\n", "line 2: cluster.nmae: there is no such setting"),
        ("data: /a\nbus: {}\ndata: /b\n", "line 3: 'data' is there twice"),
        ("data: &a /x\n", "line 1: anchors and aliases are not taken"),
        ("data: !!python/object/apply:os.system [id]\n", "tags are not taken"),
        ("data:\n\t- x\n", "line 2: found character"),
        ("- data\n", "the file is no mapping"),
        ("cluster: {relist_seconds: soon}\n", "line 1: cluster.relist_seconds: Input should be"),
        ("1: x\n", "line 1: a key is no text"),
        ("bus: {url: 'nats://h:70000'}\n", "line 1: bus.url: the bus URL has no valid port"),
        ("ledger: {url: 'mysql://h/d'}\n", "the ledger is a file of SQLite or a PostgreSQL"),
    ],
)
def test_a_file_is_read_strictly(environment, tmp_path, text, why):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(config=file)

    assert str(caught.value).startswith(str(file))
    assert why in str(caught.value)


@pytest.mark.parametrize("text", ["", "\ufeffdata: /x\n", "# nothing\n"])
def test_an_empty_file_and_a_byte_order_mark_are_fine(environment, tmp_path, text):
    file = tmp_path / "c.yaml"
    file.write_text(text, encoding="utf-8")

    assert load(config=file).cluster.name == "default"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("BURSAR_BUSS__URL", "x", "BURSAR_BUSS__URL: there is no such setting"),
        ("BURSAR_BUS__ULR", "x", "BURSAR_BUS__ULR: there is no such setting"),
        ("BURSAR_BUS", "http://x", "BURSAR_BUS: the bus is `embedded` or nats://HOST:PORT"),
        ("BURSAR_CLUSTER__NAME", "a.b", "BURSAR_CLUSTER__NAME: a cluster's name"),
        ("BURSAR_CONFIG", "/nowhere.yaml", "/nowhere.yaml: cannot be read"),
    ],
)
def test_a_wrong_variable_is_named(environment, name, value, why):
    environment.setenv(name, value)
    with pytest.raises(SettingsError, match=f"^{why}"):
        load({"data": Path("/d")})


def test_secrets_are_masked(environment):
    environment.setenv("BURSAR_LEDGER", "postgresql://u:hunter2@db/x")
    environment.setenv("BURSAR_BUS", "nats://u:hunter2@nats:4222")
    settings = load({"data": Path("/d")})

    assert "hunter2" not in repr(settings) + str(settings) + masked(settings.ledger_url)
    assert masked(settings.ledger_url) == "postgresql+psycopg://u:***@db/x"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@db/x", "postgresql://u:***@db/x"),
        ("postgresql://u@db/x", "postgresql://u@db/x"),
        ("postgresql://db/x?user=u&password=p&a=b", "postgresql://db/x?user=u&password=***&a=b"),
        ("postgresql://db/x?sslmode=require&SSLPASSWORD=p", "postgresql://db/x?sslmode=require&SSLPASSWORD=***"),
        ("postgresql://u:p@h1,h2/x", "postgresql://u:***@h1,h2/x"),
        ("postgresql://u:p/q?r@s#t@db/x", "postgresql://u:***@db/x"),
        ("nats://p@nats:4222", "nats://***@nats:4222"),
        ("nats://u:p,q@nats:4222", "nats://u:***@nats:4222"),
        ("nats://u:p@h1:4222,nats://u:p@h2:4222", "nats://u:***@h2:4222"),
        ("https://h/hook?access_token=p#key=p", "https://h/hook?access_token=***#key=***"),
        ("sqlite:////data/a@b/ledger.db", "sqlite:////data/a@b/ledger.db"),
        ("embedded", "embedded"),
    ],
)  # fmt: skip
def test_a_secret_is_masked_in_every_form_of_a_url(url, shown):
    """Password before the host, with characters that should have been escaped, as a parameter, and a NATS token."""
    assert masked(url) == shown


def test_a_secret_in_a_wrong_url_is_not_repeated(environment):
    environment.setenv("BURSAR_BUS", "nats://u:hunter2@nats:99999")
    with pytest.raises(SettingsError) as caught:
        load({"data": Path("/d")})

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "wanted", "shows"),
    [("127.0.0.1", None, True), ("::1", None, True), ("0.0.0.0", None, False),
     ("0.0.0.0", True, True), ("localhost", False, False), ("a.example", None, False)],
)  # fmt: skip
def test_the_scheduler_is_told_on_this_machine_alone_unless_a_setting_says_so(host, wanted, shows):
    told = {
        mode: AdmissionSettings(mode=mode, health_host=host, diagnosis=wanted).answers_diagnosis
        for mode in ("off", "shadow")
    }

    assert told == {"off": False, "shadow": shows}


@pytest.mark.parametrize(
    ("ledger", "folder", "seals"),
    [("sqlite:////l.db", None, True), ("postgres://db/b", None, False), ("postgres://db/b", "/shared", True),
     ("postgres://db/b", "s3://history/c1", True)],
)  # fmt: skip
def test_beside_a_ledger_on_a_server_segments_need_a_folder_that_all_have(
    environment, ledger, folder, seals
):
    environment.setenv("BURSAR_LEDGER", ledger)
    if folder is not None:
        environment.setenv("BURSAR_HISTORY__FOLDER", folder)

    assert load().seals == seals
    environment.setenv("BURSAR_HISTORY__KEEP", "90d")
    if seals:
        assert load().seals
    else:
        with pytest.raises(SettingsError, match=r"history\.keep.*history\.folder"):
            load()


def test_each_cluster_of_a_hub_has_a_folder_of_segments_of_its_own(environment):
    environment.setenv("BURSAR_HISTORY__FOLDER", "/shared")
    settings = load()
    folders = {cluster_settings(settings, name).segments_folder for name in ("a", "b")}

    assert folders == {Path("/shared/a"), Path("/shared/b")}
    environment.setenv("BURSAR_HISTORY__FOLDER", "s3://history/all/")
    environment.setenv("BURSAR_LEDGER__ANCHOR", "s3://anchors/all")
    found = cluster_settings(load(), "a")
    assert found.segments_folder == "s3://history/all/a"
    assert found.ledger.anchor == "s3://anchors/all/a"
