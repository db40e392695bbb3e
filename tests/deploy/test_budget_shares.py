"""`bursar budget shares`, and `budget list` at a hub: what spans clusters is the sum of its shares, and may be moved."""

import json
import os
import shlex
import time

import msgspec
import pytest

from bus.events.quotas import Budget
from deploy.cli.quotas.shares import _together
from deploy.cli.rendering import tables
from tests import factories as f
from tests.deploy.ledgers import bursar, make_ledger

BIZ = "biz.group.resource.quota"
KEY = "limits.cpu"
HOUR = 3_600
MILLI_HOUR = 3_600_000


def share(cluster, hard, cores, *, until_s=10 * HOUR, quota="research", period="Total"):
    """A cluster whose quota has a share of so many core-hours, and spends so many cores until it was last observed."""
    yield f.quota_observed(quota, 1, 0, cash={KEY: hard * MILLI_HOUR}, hard={}, budget=Budget(period))  # fmt: skip
    pod = {"labels": {BIZ: quota}, "cpu": str(cores), "node": "n", "created": 0}
    yield f.pod_observed("p", 1, 0, **pod)
    yield f.pod_observed("other", 1, until_s, created=until_s)


def hub(data, clusters, down=()):
    for name, facts in clusters.items():
        folder = data / "clusters" / name
        folder.mkdir(parents=True)
        make_ledger(folder, [msgspec.structs.replace(one, cluster=name) for one in facts])
    link = {"domain": "x", "projected": 2, "quiet_seconds": 0.1, "lag": 0, "trouble": ""}
    told = {name: link | ({"quiet_seconds": 600} if name in down else {}) for name in clusters}
    (data / "hub.json").write_text(json.dumps(told))
    os.utime(data / "hub.json", (time.time(),) * 2)
    return data


def asked(capsys, *words):
    code = bursar(*words, "-o", "json")
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


TWO = {"lab": (1_000, 1), "prod": (1_000, 9)}


def two(data, down=()):
    return hub(data, {name: share(name, *one) for name, one in TWO.items()}, down)


def test_a_budget_of_a_hub_is_the_sum_of_its_shares_and_says_which_is_used_up_first(
    capsys, tmp_path
):
    [row] = asked(capsys, "budget", "list", "--data", two(tmp_path))
    own = [
        asked(capsys, "budget", "list", "--data", tmp_path, "--cluster", name)[0] for name in TWO
    ]

    for name in ("hard", "credits", "spent", "committed", "remaining"):
        assert row[name] == sum(one[name] for one in own), name
    assert (row["hard"], row["spent"]) == (2_000 * MILLI_HOUR, 100 * MILLI_HOUR)
    assert (row["clusters"], row["first_out_in"], row["first_out_at"]) == ("lab,prod", "prod", own[1]["exhausts_at"])  # fmt: skip


def test_what_is_moved_makes_all_shares_last_equally_long(capsys, tmp_path):
    lab, prod = asked(capsys, "budget", "shares", "--data", two(tmp_path))

    # 1,900 hours are left: a tenth of them for the cluster that spent a tenth.
    assert (lab["move"], prod["move"]) == (-800 * MILLI_HOUR, 800 * MILLI_HOUR)
    assert prod["remaining"] + prod["move"] == 9 * (lab["remaining"] + lab["move"])


def test_the_credits_that_move_it_are_written_those_that_take_first_and_do_what_they_say(
    capsys, tmp_path
):
    two(tmp_path)
    assert bursar("budget", "shares", "--data", tmp_path) == 0
    out = capsys.readouterr().out
    lines = [line.strip() for line in out.splitlines() if "budget credit" in line]

    assert [line.partition(":")[0] for line in lines] == ["in lab", "in prod"]
    assert shlex.split(lines[0].partition(": ")[2])[1:6] == ["budget", "credit", "research", KEY, "-800"]  # fmt: skip
    assert all("--period 1970-01-01T00:00:00Z" in line for line in lines)
    assert "--reason 'to prod'" in lines[0] and "--reason 'from lab'" in lines[1]


@pytest.mark.parametrize("how", ["its link is down", "nothing was observed of it for long"])
def test_nothing_is_moved_to_or_from_a_cluster_that_is_not_heard_of(capsys, tmp_path, how):
    facts = {name: share(name, *one) for name, one in TWO.items()}
    if how.startswith("its link"):
        hub(tmp_path, facts, down=("lab",))
    else:
        hub(tmp_path, facts | {"lab": share("lab", 1_000, 1, until_s=HOUR)})
    lab, prod = asked(capsys, "budget", "shares", "--data", tmp_path)

    assert (lab["is_known"], lab["move"], prod["is_known"], prod["move"]) == (False, None, True, 0)
    assert bursar("budget", "list", "--data", tmp_path) == 0
    assert "cluster lab is not heard of" in capsys.readouterr().out


def test_a_quota_with_another_period_is_another_budget_and_one_cluster_alone_shares_nothing(
    capsys, tmp_path
):
    facts = {name: share(name, *one) for name, one in TWO.items()}
    hub(tmp_path, facts | {"prod": share("prod", 1_000, 9, period="Month")})

    assert asked(capsys, "budget", "shares", "--data", tmp_path) == []
    assert len(asked(capsys, "budget", "list", "--data", tmp_path)) == 2
    assert len(asked(capsys, "budget", "shares", "research", "--data", tmp_path)) == 2
    assert bursar("budget", "shares", "--data", tmp_path) == 0
    assert (
        "a budget spans clusters where several have a quota of the same name"
        in capsys.readouterr().out
    )
    assert bursar("budget", "shares", "reserach", "--data", tmp_path) != 0
    assert "is it research?" in capsys.readouterr().err


def test_a_share_between_its_windows_stands_beside_one_that_is_granted():
    """Both may lie between the same two moments, in clusters whose quotas have other windows."""
    row = {"quota": "q", "key": KEY, "start_at": None, "end_at": None, "is_known": True} | dict.fromkeys(
        ("spent", "committed", "remaining"), 0
    )  # fmt: skip
    found = _together([row | {"cluster": "a", "is_granted": 1}, row | {"cluster": "b", "is_granted": 0}])  # fmt: skip

    assert [[one["cluster"] for one in shares] for shares in found] == [["b"], ["a"]]


def test_entries_are_those_of_one_cluster(capsys, tmp_path):
    assert bursar("budget", "list", "--entries", "--data", two(tmp_path)) == 2
    assert "of one cluster of a hub" in capsys.readouterr().err
    assert (
        asked(capsys, "budget", "list", "--entries", "--data", tmp_path, "--cluster", "lab") == []
    )


@pytest.mark.parametrize("width", [80, 120])
def test_no_table_is_wider_than_the_terminal(capsys, tmp_path, monkeypatch, width):
    monkeypatch.setattr(tables, "terminal_width", lambda: width)
    two(tmp_path)
    for command in ("list", "shares"):
        assert bursar("budget", command, "--data", tmp_path) == 0
        out = capsys.readouterr().out
        assert max(len(line) for line in out.splitlines() if "budget credit" not in line) <= width
        assert "research" in out
