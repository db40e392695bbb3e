"""TLS to a bus of one's own by the settings, and what is refused there."""

import pytest

from deploy.cli.program.program import run_command
from deploy.runtime.bootstrap import bus
from deploy.settings.load import load
from deploy.settings.place import place
from deploy.settings.shape import Settings
from tests.bus.authority import Authority
from tests.bus.tls_server import LOGIN, Server, connected, ours


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "certificates")


@pytest.fixture
def server(tmp_path, authority):
    made = Server(tmp_path, authority)
    made.start()
    yield made
    made.stop()


@pytest.mark.nats
async def test_the_settings_of_the_bus_are_its_files(server, authority, tmp_path):
    await (await connected(server.url, ours(authority))).close()
    cert, key = authority.signed("bursar")
    settings = Settings(
        data=tmp_path / "data",
        bus={
            "url": f"tls://{':'.join(LOGIN)}@127.0.0.1:{server.port}", "tls_ca": str(authority.file),
            "tls_cert": str(cert), "tls_key": str(key), "monitor_urls": [f"http://127.0.0.1:{server.monitor}"],
        },
    )  # fmt: skip
    async with bus(settings) as opened:
        assert opened.transport.connected


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"BURSAR_BUS__TLS_CA": "ca.crt"}, "go with a url"),
        ({"BURSAR_BUS": "nats://n:4222", "BURSAR_BUS__TLS_KEY": "a.key"}, "tls_key goes with tls_cert"),
    ],
)  # fmt: skip
def test_files_that_would_not_be_used_are_refused(variables, words, tmp_path, monkeypatch, capsys):
    for name, text in variables.items():
        monkeypatch.setenv(name, text)

    assert run_command(["--data", str(tmp_path / "data"), "status"]) == 2
    assert words in capsys.readouterr().err


def test_a_question_finds_the_same_files_as_the_whole_settings(tmp_path, monkeypatch):
    for name in ("ca", "cert", "key"):
        monkeypatch.setenv(f"BURSAR_BUS__TLS_{name.upper()}", f"/etc/{name}")
    monkeypatch.setenv("BURSAR_BUS", "nats://n:4222")
    options = {"data": tmp_path}

    assert place(options).bus.tls == load(options).bus.tls
    assert str(place(options).bus.tls.key) == "/etc/key"
