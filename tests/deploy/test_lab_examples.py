"""The tables in docs/lab.md are what the commands above them print, on a ledger of small random clusters."""

import random
import re
import shlex
from pathlib import Path

import pytest

from tests.deploy.ledgers import bursar, make_ledger
from tests.reactors.lab import eviction_worlds, placement_worlds
from tests.reactors.lab.quota_worlds import asked, random_asks
from tests.reactors.lab.worlds import World, people, policy
from tests.simulation.loop import simulate

PAGE = Path("docs/lab.md")
FILES = {
    "shares.yaml": "evictions: {policy: {monitor_all_quotas: true, delay_evict_seconds: 20}}",
    "packed.yaml": "scheduling: {policy: {profiles: [{fields: {NodeResourcesFit: {strategy: MostAllocated}}}]}}",
    "two-hours.yaml": "culling: {policy: {idle_seconds: 7200, warning_seconds: 900}}",
    "strict.yaml": "culling: {policy: {idle_seconds: 900, warning_seconds: 300}}",
    "more.yaml": "quotas: {vision: {limits.cpu: 12, cash/limits.cpu: 4}}",
}
DAY = 86_400


def examples():
    """(command, the lines below it) of each lab that the page shows."""
    text = PAGE.read_text()
    for block in re.findall(r"```console\n(\$ bursar lab .*?)```", text, re.DOTALL):
        command, *lines = block.splitlines()
        yield command.removeprefix("$ bursar "), lines


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory):
    record = World(people(5, DAY // 2, count=6), policy(idle_seconds=14_400)).run(DAY // 2)
    return make_ledger(tmp_path_factory.mktemp("notebooks"), record.events)


@pytest.fixture(scope="module")
def quotas(tmp_path_factory):
    hard, cash = {"limits.cpu": 6_000}, {"limits.cpu": 2_400_000}
    limited = {"vision": {"hard": hard, "cash": cash}, "speech": {"hard": hard}}
    jobs = random_asks(random.Random(4), "vision", "speech", "vision")
    history, _ = simulate(asked(limited, jobs, period=1_500))
    return make_ledger(tmp_path_factory.mktemp("quotas"), history)


@pytest.fixture(scope="module")
def pods(tmp_path_factory):
    record = placement_worlds.world(7, placement_worlds.policy(), until=9_000, count=60, span=6_000)
    return make_ledger(tmp_path_factory.mktemp("pods"), record.events)


@pytest.fixture(scope="module")
def evicted(tmp_path_factory):
    spent = ((400, "GraceOver"),)
    record = eviction_worlds.lived(eviction_worlds.cards(random.Random(4)), "off", {}, spent)
    return make_ledger(tmp_path_factory.mktemp("evicted"), record.events)


@pytest.mark.parametrize(("command", "lines"), list(examples()), ids=lambda one: str(one)[:40])
def test_the_page_shows_what_the_command_prints(
    command, lines, notebooks, quotas, pods, evicted, tmp_path, monkeypatch, capsys
):
    ledgers = {"quotas": (quotas, "c1"), "scheduling": (pods, "c"), "evictions": (evicted, "c1")}
    data, cluster = ledgers.get(command.split()[1], (notebooks, "c"))
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)

    assert bursar(*shlex.split(command), "--data", data, "--cluster", cluster) == 0

    assert lines == capsys.readouterr().out.splitlines()[: len(lines)]


def test_the_page_has_examples():
    assert len(list(examples())) == 5
