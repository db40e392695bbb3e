"""The rights of Bursar's roles, written from its sources: a kind of workload is added in one place.

python -m deploy.commands.rights

``bursar-reader`` may list every kind with a source, and watch every kind with a watch; ``bursar-queue`` may patch the kinds
with queues. The rest of both files is written by hand and stays as it is.

Source: Kubernetes, "Using RBAC Authorization" (a rule has one list of groups and one of resources).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bus.kube.kinds import GOVERNED
from bus.kube.watch.contract import resource_of
from bus.sources.catalogue import SOURCES

FOLDER = Path(__file__).parents[1] / "manifests" / "rbac"
_BEGIN = "rules:\n"
#: The group of pods has an empty name, and YAML needs quotes for it.
_CORE = '""'


def reader(text: str) -> str:
    """The file of ``bursar-reader`` with the rules for every source."""
    watched = rules((one.path for one in SOURCES if one.polling is None), "list, watch")
    polled = rules((one.path for one in SOURCES if one.polling is not None), "list")
    return _replaced(text, watched + polled, "# Where a notebook listens")


def queue(text: str) -> str:
    """The file of ``bursar-queue`` with the rules for every kind with queues."""
    paths = (kind.path for kind in GOVERNED if kind.queues)
    return _replaced(text, rules(paths, "patch"), "---\n")


def rules(paths: Iterable[str], verbs: str) -> str:
    """One rule for each group of the kinds under these paths of the API, in their order."""
    groups: dict[str, dict[str, None]] = {}
    for path in paths:
        resource, _, group = resource_of(path).partition(".")
        groups.setdefault(group, {})[resource] = None
    return "".join(
        f"- apiGroups: [{group or _CORE}]\n  resources: [{', '.join(names)}]\n  verbs: [{verbs}]\n"
        for group, names in groups.items()
    )


def _replaced(text: str, rules: str, end: str) -> str:
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(end)
    assert begin and end
    return f"{before}{begin}{rules}{end}{after}"


if __name__ == "__main__":
    for file, written in {"reader.yaml": reader, "queue.yaml": queue}.items():
        path = FOLDER / file
        path.write_text(written(path.read_text("utf-8")), "utf-8")
