"""Starts: a command imports what it needs and no more, since a person waits for every import.

A machine's speed is no matter of these tests: they count and name modules. What a start costs is measured by
``tests/benchmarks/starts.py``.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.main import get_group

import deploy
from deploy.cli.program import commands
from deploy.cli.program.lazy import Lazy
from deploy.cli.program.program import program, run_command
from deploy.errors import SettingsError
from deploy.settings.load import load
from deploy.settings.place import FIELDS, OTHERS, _usual, place, place_of
from deploy.settings.shape import Settings
from reactors.catalogue import REACTORS
from tests.deploy.ledgers import make_ledger

#: What only a command that talks to a bus, to a cluster or to a web client needs.
HEAVY = ("kubernetes", "nats", "alembic", "starlette", "uvicorn", "httpx", "pydantic", "pydantic_settings", "asyncpg")  # fmt: skip
#: What only a question to the ledger needs.
LEDGER = ("sqlalchemy", "msgspec", "rich", "yaml", "psycopg")

QUESTIONS = [
    ("report", "--by", "team,day"), ("report", "-o", "json"), ("acct",), ("acct", "-o", "csv"), ("events",),
    ("get", "quotas"), ("quota", "tree"), ("budget", "list"), ("parked", "list"), ("status",),
]  # fmt: skip
#: These read quotas, queues or policies, whose rules have classes of their own.
JUDGING = [("evictions",), ("queue", "show"), ("notebooks",), ("why", "ns/bound")]

_LOOK = """
import sys
from deploy.cli.program.program import run_command
code = run_command(sys.argv[1:])
sys.stderr.write(f"\\n{code} " + " ".join(sorted(sys.modules)))
"""


def modules(*arguments, **environment):
    """(exit code, names of the modules) of one command in a process of its own."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BURSAR_", "KUBE"))}
    found = subprocess.run(
        [sys.executable, "-c", _LOOK, *map(str, arguments)],
        env={**clean, **environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    code, *names = found.stderr.splitlines()[-1].split()
    return int(code), set(names)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_ledger(tmp_path_factory.mktemp("ledger"))


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [("version",), ("--help",), ("quota", "--help"), ("parked", "--help")],
    ids=" ".join,
)
def test_version_and_help_import_neither_ledger_nor_bus_nor_cluster(arguments):
    code, names = modules(*arguments)

    assert code == 0
    assert names.isdisjoint((*HEAVY, *LEDGER))
    assert len(names) <= 220


@pytest.mark.long
@pytest.mark.parametrize("arguments", QUESTIONS, ids=" ".join)
def test_a_question_imports_the_ledger_alone(data, arguments):
    code, names = modules(*arguments, "--data", data)

    assert code == 0
    assert names.isdisjoint(HEAVY)
    # `status` counts the pods that ended by the sums of reports; it and `acct` compare charges with the supply of nodes.
    assert len(names) <= {"status": 544, "acct": 535}.get(arguments[0], 522)


@pytest.mark.long
@pytest.mark.parametrize("arguments", JUDGING, ids=" ".join)
def test_a_question_about_decisions_imports_neither_bus_nor_cluster(data, arguments):
    code, names = modules(*arguments, "--data", data)

    assert code in (0, 1)
    assert names.isdisjoint(set(HEAVY) - {"pydantic"})
    # The rules of devices are twelve modules of the catalogue, a twentieth of the time that it takes to import; what the
    # state of the cluster keeps of claims and PodGroups are three, what runs jobs is four, what it sees of
    # their services is two, what reads the history from segments and table is three, and the table of facts
    # that make rows is one; so are what the state keeps of gangs' cycles, and what the scheduler knows of a pod.
    # Ends of pods and parts of cards are six, and what a pod holds of them by the ledger's rule is seven. The folders of
    # the scheduler and of admission are four.
    assert len(names) <= 688


@pytest.mark.long
def test_the_queue_of_the_scheduler_reads_no_manifests(data):
    """Unlike `schedule check`, whose files need YAML and what a source reads pods with."""
    code, names = modules("schedule", "queue", "--data", data)

    assert code == 0
    assert names.isdisjoint({"yaml", "bus.sources.pods", "bus.sources.training"})


@pytest.mark.long
def test_settings_of_other_parts_are_read_by_the_commands_that_need_them(data):
    """A question in the pod of `bursar up` meets all of its variables."""
    environment = {"BURSAR_ADMISSION__MODE": "enforce", "BURSAR_CULLING__MODE": "on"}
    code, names = modules("report", "--data", data, **environment)

    assert code == 0
    assert names.isdisjoint(HEAVY)


def paths(table=commands.COMMANDS, above=()):
    for name, entry in table.items():
        yield (*above, name), entry
        if isinstance(entry, commands.Group):
            yield from paths(entry.commands, (*above, name))


@pytest.mark.parametrize("path", [path for path, _ in paths()], ids=" ".join)
def test_what_the_list_of_commands_says_is_what_the_command_says(path):
    command = program()
    listed = commands.COMMANDS
    for name in path:
        assert isinstance(command, Lazy)
        entry = listed[name]
        listed = getattr(entry, "commands", {})
        command = command.get_command(None, name)

    first = command.help.replace("\f", "").split("\n\n")[0]
    assert " ".join(first.split()).startswith(entry.help.rstrip("."))


@pytest.mark.parametrize("name", ["", *(n for n, e in commands.COMMANDS.items() if hasattr(e, "commands"))])  # fmt: skip
def test_no_text_of_the_list_of_commands_is_cut_at_80_columns(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    assert run_command([*name.split(), "--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:")[2].partition("Exit codes")[0]

    assert listed and "..." not in listed


def test_every_command_that_is_declared_is_in_the_list():
    """A module with ``register`` and no entry could be called by nobody."""
    declared = set()
    for file in Path(deploy.__file__).parent.rglob("*.py"):
        name = ".".join(file.relative_to(Path(deploy.__file__).parent).with_suffix("").parts)
        if "\ndef register(" in file.read_text():
            made = typer.Typer()
            importlib.import_module(f"deploy.{name}").register(made)
            declared |= {(name, one) for one in get_group(made).commands}

    listed = {(e.module, path[-1]) for path, e in paths() if not isinstance(e, commands.Group)}
    assert declared == listed


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, {}),
        ({"BURSAR_DATA": "/a", "BURSAR_LEDGER": "postgresql://u:p@h/d", "BURSAR_CLUSTER__NAME": "x"}, {}),
        ({"BURSAR_LEDGER": "sqlite:////one.db", "BURSAR_LEDGER__URL": "sqlite:////two.db"}, {}),
        ({"bursar_cluster__name": "small", "BURSAR_CULLING__MODE": "on"}, {"data": Path("~/d")}),
        ({"BURSAR_CLUSTER": '{"name": "whole"}'}, {"ledger": {"url": "sqlite:////x.db"}}),
        ({"BURSAR_CONFIG": "FILE"}, {"bus": {"url": "nats://h:4222"}}),
        ({"BURSAR_BUS": "nats://u:p@h:4222", "BURSAR_NATS_SERVER": "/bin/s"}, {}),
        ({"BURSAR_BUS": "tls://h", "BURSAR_BUS__CREDENTIALS": "~/c", "BURSAR_BUS__REPLICAS": "3"}, {}),
        ({"BURSAR_BUS__CREDENTIALS": "", "BURSAR_BUS__MONITOR_URLS": '["http://h:8222"]'}, {}),
        ({"BURSAR_BUS__CREDENTIALS": "c"}, {"bus": {"url": "nats://h:4222"}}),
        ({"BURSAR_CONFIG": "FILE", "BURSAR_CLUSTER__NAME": "stronger", "BURSAR_DATA": "/stronger"}, {}),
    ],
)  # fmt: skip
def test_a_question_finds_the_place_that_all_settings_name(
    monkeypatch, tmp_path, environment, options
):
    file = tmp_path / "s.yaml"
    file.write_text(
        "data: /f\ncluster: {name: filed}\nledger: {heads_file: /h}\nadmission: {port: 9}\n"
    )
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace("FILE", str(file)))
    settings = load(options)

    found = place(options)
    assert found == place_of(settings)
    assert found.bus.address == settings.bus.address
    assert (found.bus.is_embedded, found.state_file) == (
        settings.bus.is_embedded,
        settings.state_file,
    )


@pytest.mark.parametrize(
    "environment",
    [
        {"BURSAR_LEDGR__URL": "x"}, {"BURSAR_LEDGER__ULR": "x"}, {"BURSAR_LEDGER": "mysql://h/d"},
        {"BURSAR_CLUSTER__NAME": "a b"}, {"BURSAR_BUS": "http://h"},
    ],
    ids=lambda found: next(iter(found)),
)  # fmt: skip
def test_what_is_wrong_with_a_place_is_said_as_by_all_settings(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as whole:
        load({})
    with pytest.raises(SettingsError) as found:
        place({})

    assert str(found.value) == str(whole.value)


def test_a_file_that_names_an_empty_folder_is_read_as_by_all_settings(monkeypatch, tmp_path):
    file = tmp_path / "s.yaml"
    monkeypatch.setenv("BURSAR_CONFIG", str(file))
    file.write_text('data: ""\n')
    assert place({}) == place_of(load({}))

    file.write_text("data:\n")
    with pytest.raises(SettingsError) as whole:
        load({})
    with pytest.raises(SettingsError) as found:
        place({})
    assert str(found.value) == str(whole.value)


def test_the_light_reader_knows_every_part_and_field_of_the_settings():
    fields = Settings.model_fields
    parts = {name: set(fields[name].annotation.model_fields) for name in FIELDS}

    assert parts == {name: set(known) for name, known in FIELDS.items()}
    assert set(fields) == {"data", *FIELDS, *OTHERS, *(one.name for one in REACTORS)}


@pytest.mark.parametrize("reactor", REACTORS, ids=lambda reactor: reactor.name)
def test_the_light_reader_leaves_the_sections_of_reactors_aside(monkeypatch, tmp_path, reactor):
    """All settings are read for a name that nobody has: that is slower."""
    file = tmp_path / "s.yaml"
    file.write_text(f"{reactor.name}:\n  mode: shadow\n")
    monkeypatch.setenv(f"BURSAR_{reactor.name.upper()}__MODE", "shadow")

    assert _usual({}, file) is not None
    file.write_text("nobodys:\n  mode: shadow\n")
    assert _usual({}, file) is None


@pytest.mark.long
def test_who_asks_the_bus_imports_neither_settings_nor_reactors_nor_what_writes_the_ledger():
    """With them `bursar status` took twice as long where `bursar up` runs."""
    look = (
        "import sys, deploy.cli.status, deploy.settings.place, deploy.runtime.bootstrap; print("
        "sorted({'pydantic', 'reactors', 'kubernetes', 'projections.catalogue'} & set(sys.modules)), len(sys.modules))"
    )
    found = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=120
    )

    names, _, count = found.stdout.rpartition(" ")
    assert names == "[]"
    assert int(count) <= 620


@pytest.mark.long
def test_who_asks_the_bus_imports_no_client_for_websockets():
    """It took a sixth of `bursar status`; who needs it still gets it."""
    look = "import sys, bus.jetstream; print('aiohttp' in sys.modules); import aiohttp.client"
    found = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=120
    )

    assert found.stdout == "False\n"
