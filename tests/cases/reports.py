"""Runs the files of `reports`: objects as a watch shows them → translate → ledger → a question of the command line.

Each check is a question, an expression over its JSON rows ``r``, and the value that it must have; null is no value to compare.
"""

import builtins
import json

import msgspec

from bus.clock import parse_stamp
from bus.kube.watch.labels import LabelPolicy
from bus.kube.watch.records import Record
from bus.sources.catalogue import SOURCES
from tests.cases.files import FOLDER
from tests.deploy.ledgers import bursar, make_ledger
from tests.factories import numbered

#: Report by name.
REPORTS = {p.stem: json.loads(p.read_bytes()) for p in sorted((FOLDER / "reports").glob("*.json"))}

_BY_NAME = {source.name: source for source in SOURCES}
_POLICY = LabelPolicy()
#: What a check's expression may use.
_NAMES = {name: getattr(builtins, name) for name in ("len", "max", "min", "sorted", "str", "sum")}


def events_of(report):
    """The events that the sources publish of a report's records."""
    return numbered(
        _BY_NAME[seen["kind"]].translate(
            Record(
                seen["change"], msgspec.json.encode(seen["object"]), parse_stamp(seen["at"]), "c",
                f"kube/{seen['kind']}",
            ),
            _POLICY,
        )
        for seen in report["events"]
    )  # fmt: skip


def answer(capsys, data, check):
    """The value of a check's expression over the rows of its question."""
    assert bursar(*check["ask"], "--data", data, "-o", "json") == 0, check["ask"]
    rows = json.loads(capsys.readouterr().out)
    found = eval(check["get"], {"__builtins__": _NAMES}, {"r": rows})
    return json.loads(json.dumps(found))


def check(capsys, folder, report):
    """Fail at the first check of ``report`` whose value is not the right one."""
    data = make_ledger(folder, events_of(report))
    for one in report["checks"]:
        found = answer(capsys, data, one)
        assert one["right"] in (None, found), f"{one['what']}: {found}; {report['why']}"
