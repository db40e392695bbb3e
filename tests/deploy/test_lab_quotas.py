"""``bursar lab quotas``: what people see of limits that were tried on a small quota tree."""

import json

import pytest

from deploy.cli.program.exits import Exit
from tests.deploy.ledgers import bursar
from tests.deploy.quota_ledger import make_quota_ledger


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_quota_ledger(tmp_path_factory.mktemp("quotas"))


@pytest.fixture
def tried(data, tmp_path, capsys):
    def ask(text, *arguments, code=0):
        path = tmp_path / "limits.yaml"
        path.write_text(text)
        found = bursar("lab", "quotas", "--limits", path, "--data", data, "--cluster", "c1", *arguments)  # fmt: skip
        out, err = capsys.readouterr()
        assert found == code, err
        return out if code == 0 else err

    return ask


MORE = 'quotas: {team: {limits.cpu: "16"}}'


def test_more_room_lets_in_what_was_refused_and_less_refuses_what_was_admitted(tried):
    rows = json.loads(tried(MORE, "-o", "json"))
    assert [(row["name"], row["recorded"], row["tried"], row["let_in"]) for row in rows] == [
        ("team", 2, 3, 1),
        ("", 2, 3, 1),
    ]
    (big,) = json.loads(tried(MORE, "--workloads", "-o", "json"))
    assert (big["change"], big["name"], big["quota"]) == ("let_in", "big", "team")

    less = json.loads(tried("quotas: {team: {limits.cpu: 4}}", "--workloads", "-o", "json"))
    assert [(row["change"], row["name"]) for row in less] == [("refused", "train")]


def test_a_table_fits_and_limits_that_are_none_are_refused_with_their_line(tried):
    assert "2 to 3" in tried(MORE)
    for text, told in {
        "culling: {}": "section quotas is missing; example: quotas: {",
        "quotas: {team: 5}": "no keys",
        "quotas:\n  team:\n    cpu: 5": "line 3: quotas.team.cpu: 'cpu' is no limit",
        "quotas:\n  team:\n    parent: 5": "line 3: quotas.team.parent: it is not text",
        "quotas: {team: {parent: mapped}}": "'mapped' is no quota of the same tree",
        "quotas: {org: {parent: team}}": "it would be above itself",
        "quotas:\n  team:\n    queue:\n      order: Random": "line 4: quotas.team.queue.order: it is none of",
        "quotas: {team: {queue: {holds: true}}}": "'holds' is none of hold",
        "quotas: {team: {queue: {maxHeadDelaySeconds: true}}}": "not a whole number",
        "quotas: {team: {queue: {maxHeadDelaySeconds: -1}}}": "below 0",
        "quotas: {team: {exhaustion: Never}}": "none of Warn",
        "quotas: {team: {max: {nothing at all: 5}}}": "is no resource",
        "quotas: {team: {cash/limits.cpu: 5i}}": "hours are a plain number",
        "quotas:\n  team:\n    limits.cpu: [5]": "no amount",
        "quotas:\n  team:\n    limits.cpu: -5": "line 3",
        "quotas:\n  team:\n    limits.cpu: 99999999999999999999999": "line 3",
        "quotas: {nobody: {limits.cpu: 5}}": "no quota 'nobody'",
    }.items():
        assert told in tried(text, code=Exit.USAGE), text
