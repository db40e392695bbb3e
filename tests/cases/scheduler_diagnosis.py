"""Runs `scheduler_diagnosis` cases: the table of scores, and the paths on the port of health."""

import asyncio
import json

from reactors.catalogue import REACTORS
from reactors.diagnosis import Diagnosis
from reactors.engine.replica import Replica
from reactors.scheduling.diagnosis.score_table import score_table
from reactors.webhook.health import HealthApplication
from tests.reactors.webhook.asking import ask


def check(case):
    """The operation of the case gives what it says."""
    OPERATIONS[case["given"]["op"]](case["given"], case["expect"])


def _score_table(given, expect):
    header, rows = score_table(
        given["pod"], given["nodes"], given["plugin_scores_by_node_index"], given["top_n"]
    )

    assert {"header": header, "rows": rows} == expect


def _asked(diagnosis, path, method="GET", body=b""):
    app = HealthApplication(routes=diagnosis.routes)
    return asyncio.run(ask(app, body, path=path, method=method))


def _set_top_n(given, expect):
    diagnosis = Diagnosis(lambda: None)
    answer = _asked(diagnosis, "/debug/flags/s", "PUT", given["value"].encode())
    said = answer.body.decode()

    assert (answer.status == 200) == expect["ok"]
    if expect["ok"]:
        assert (said, diagnosis.most) == (expect["reply"], int(given["value"]))
    else:
        assert said.startswith(expect["error_prefix"]) and diagnosis.most == 0


def _http(given, expect):
    replica = Replica(REACTORS, "c1") if given.get("initialised", True) else None
    diagnosis = Diagnosis(lambda: replica)
    if "plugin" in given:
        listed = json.loads(_asked(diagnosis, "/apis/v1/__services__").body)["GET"]
        # All paths are listed sorted.
        assert [path for path in listed if given["plugin"] in path] == sorted(expect["paths"])
        return
    answer = _asked(diagnosis, given["path"], given["method"])
    assert answer.status == expect["status"]
    if isinstance(expect.get("body"), dict):
        assert json.loads(answer.body) == expect["body"]
    elif "body" in expect:
        assert all(paths == sorted(paths) for paths in json.loads(answer.body).values())


OPERATIONS = {"score_table": _score_table, "set_top_n": _set_top_n, "http": _http}
