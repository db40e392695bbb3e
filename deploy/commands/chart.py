"""The objects of every installation as a Helm chart: sizes, modes and acts are values. Pure.

It is made of the same files and parts as :mod:`deploy.commands.installation`, and renders to the same objects, with two
exceptions: the namespace is Helm's, and Bursar's kinds stay after an uninstall, since quotas would be deleted with them.
Templates use ``if``, ``eq``, ``ne``, ``has``, ``and``, ``or``, ``quote`` and values, and nothing else.

Source: Helm, "Charts" and "Schema Files".
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from deploy.commands.installation import (
    ACTS,
    ALWAYS,
    APART,
    API_APART,
    API_WITHIN,
    FLOOR,
    MODES,
    MOUNTED,
    NAMESPACE,
    PODS,
    SIZES,
    UNASKED,
    Act,
    Json,
    ManifestPart,
    Mode,
    Size,
    has_variable,
    identity,
    read,
)

_APART = 'and (ne .Values.size "small") (ne .Values.mode "watch")'
#: Each part, and when it belongs to an installation.
_CONDITIONS: tuple[tuple[str, ManifestPart], ...] = (
    ("", ManifestPart(ALWAYS)),
    *((f'eq .Values.size "{size}"', part) for size, part in SIZES.items()),
    *((f'eq .Values.mode "{mode}"', part) for mode, part in MODES.items()),
    *((f'has "{act}" .Values.act', part) for act, part in sorted(ACTS.items())),
    (_APART, APART),
    (".Values.floor", FLOOR),
    ('and .Values.api (eq .Values.size "small")', API_WITHIN),
    ('and .Values.api (ne .Values.size "small")', API_APART),
)
_DOC = "# Written by `bursar manifests --chart`; put your own over it by values, or by a kustomization of what it renders.\n"


_NOTES = """\
Bursar runs in mode {{ .Values.mode | quote }}.
{{- if eq .Values.mode "watch" }} It reads the cluster and changes nothing.{{- end }}
{{- if eq .Values.mode "shadow" }} It records its decisions on quotas and refuses nothing.{{- end }}
{{- if eq .Values.mode "enforce" }} It refuses workloads above their quota.{{- end }}
{{- if ne .Values.mode "watch" }}

Register the webhook with your own rights; Bursar has none for it:
  POD={{ if eq .Values.size "small" }}bursar-0{{ else }}bursar-act-0{{ end }}
  kubectl -n bursar-system exec $POD -- bursar manifests --registration |
    kubectl apply --server-side --force-conflicts -f -
{{- end }}

Is it healthy?
  kubectl -n bursar-system exec {{ if eq .Values.size "small" }}bursar-0{{ else }}bursar-act-0{{ end }} -- bursar status
Who used how much?
  kubectl -n bursar-system exec {{ if eq .Values.size "small" }}bursar-0{{ else }}bursar-act-0{{ end }} -- bursar report --by team

Values that go together: values.schema.json. Kinds of Bursar, and so your quotas, outlive `helm uninstall`.
"""


def _as_yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


def chart(version: str) -> dict[str, str]:
    """The files of a chart for a version of Bursar, by their path in its folder."""
    files = {
        "Chart.yaml": _as_yaml({
            "apiVersion": "v2", "name": "bursar", "description": "An event-sourced control plane for quotas, usage and budgets.",
            "type": "application", "version": version, "appVersion": version, "kubeVersion": ">=1.30.0-0",
        }),
        "values.yaml": _DOC + _as_yaml(_values(version)),
        "values.schema.json": json.dumps(_schema(), indent=2) + "\n",
        "templates/NOTES.txt": _NOTES,
    }  # fmt: skip
    seen: set[tuple[str, str, str]] = set()
    for file, condition in _files().items():
        text, _ = read(file)
        made = [_keeping(one) for one in yaml.safe_load_all(text) if not _is_given(one, seen)]
        body = "---\n".join(_template(one) if file.partition(" ")[0] in PODS else _as_yaml(one) for one in made)  # fmt: skip
        name = file.replace("/", "-").replace(".yaml ", "-").removesuffix(".yaml")
        files[f"templates/{name}.yaml"] = _if(condition, body)
    return files


def _values(version: str) -> Json:
    image = f"bursar:{version}"
    return {"size": str(Size.SMALL), "mode": str(Mode.WATCH), "act": [], "floor": False, "api": False, "image": image}  # fmt: skip


def _schema() -> Json:
    """The schema of the values, with forbidden combinations."""
    holds = {"contains": {"const": str(Act.QUEUES)}}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "required": ["size", "mode", "act", "floor", "api", "image"],
        "properties": {
            "size": {"enum": [str(one) for one in Size]},
            "mode": {"enum": [str(one) for one in Mode]},
            "act": {"type": "array", "uniqueItems": True, "items": {"enum": [str(one) for one in Act]}},
            "floor": {"type": "boolean"},
            "api": {"type": "boolean"},
            "image": {"type": "string", "pattern": "^[a-z0-9][A-Za-z0-9._:/@-]{0,511}$"},
            # Helm adds this to the values of a subchart.
            "global": {"type": "object"},
        },
        "allOf": [
            {"if": {"properties": {"act": holds}}, "then": {"properties": {"mode": {"const": str(Mode.ENFORCE)}}}},
            {"if": {"properties": {"floor": {"const": True}}}, "then": {"properties": {"act": holds}}},
        ],
    }  # fmt: skip


def _files() -> dict[str, str]:
    """Each file, and when it belongs to an installation."""
    found: dict[str, list[str]] = {}
    for condition, part in _CONDITIONS:
        for file in part.files:
            found.setdefault(file, []).append(condition)
    return {file: _any(conditions) for file, conditions in found.items()}


def _any(conditions: list[str]) -> str:
    if "" in conditions or len(conditions) == 1:
        return "" if "" in conditions else conditions[0]
    return "or " + " ".join(f"({one})" for one in conditions)


def _if(condition: str, body: str) -> str:
    return f"{{{{- if {condition} }}}}\n{body}{{{{- end }}}}\n" if condition else body


def _is_given(one: Json, seen: set[tuple[str, str, str]]) -> bool:
    """Whether Helm makes it, or an earlier file does."""
    name = identity(one)
    is_double = name in seen
    seen.add(name)
    return is_double or name == ("Namespace", "", NAMESPACE)


def _keeping(one: Json) -> Json:
    if one["kind"] == "CustomResourceDefinition":
        notes = one["metadata"].setdefault("annotations", {})
        notes["helm.sh/resource-policy"] = "keep"
    return one


def _template(one: Json) -> str:
    """An object with values in its pods' environment."""
    if "template" not in one.get("spec", {}):
        return _as_yaml(one)
    spec = one["spec"]["template"]["spec"]
    [container] = spec["containers"]
    command = container["command"][1]
    marks = _Marks()
    container["image"] = marks.value("{{ .Values.image | quote }}")
    if command in ("up", "act"):
        spec["serviceAccountName"] = marks.value(
            "{{ if .Values.act }}bursar-actor{{ else }}bursar{{ end }}"
        )
    if command == "ledger":
        spec["automountServiceAccountToken"] = False
    if (many := {"up": 0, "webhook": 3}.get(command, 2)) > 0:
        few = one["spec"]["replicas"]
        one["spec"]["replicas"] = marks.value(
            f'{{{{ if eq .Values.size "large" }}}}{many}{{{{ else }}}}{few}{{{{ end }}}}'
        )
    for condition, part in _CONDITIONS:
        environment = {
            name: value for name, value in part.environment.items() if has_variable(command, name)
        }
        if part is APART and command in ("up", "act"):
            environment["BURSAR_ADMISSION__SERVES"] = "false"
        container["env"] += marks.items(
            condition, [{"name": k, "value": v} for k, v in environment.items()]
        )
        secrets = {} if command in UNASKED else part.secrets
        container["volumeMounts"] += marks.items(
            condition,
            [
                {"name": folder, "mountPath": f"{MOUNTED}/{folder}", "readOnly": True}
                for folder in secrets.values()
            ],
        )
        spec["volumes"] += marks.items(
            condition, [{"name": v, "secret": {"secretName": k}} for k, v in secrets.items()]
        )
    return marks.written(_as_yaml(one))


class _Marks:
    """Words in an object that stand for pieces of a template."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._items: dict[str, tuple[str, list[Json]]] = {}

    def value(self, template: str) -> str:
        """Stands for a value."""
        mark = f"mark-{len(self._values)}-value"
        self._values[mark] = template
        return mark

    def items(self, condition: str, items: list[Json]) -> list[Any]:
        """Stands for list items under a ``condition``."""
        if not items:
            return []
        mark = f"mark-{len(self._items)}-items"
        self._items[mark] = (condition, items)
        return [mark]

    def written(self, text: str) -> str:
        """The text with the pieces in place of the words."""
        for mark, template in self._values.items():
            text = text.replace(mark, template)
        return "".join(self._line(line) for line in text.splitlines(keepends=True))

    def _line(self, line: str) -> str:
        indent, dash, word = line.rstrip("\n").partition("- ")
        if not dash or word not in self._items:
            return line
        condition, items = self._items[word]
        inner = "".join(f"{indent}{one}" for one in _as_yaml(items).splitlines(keepends=True))
        return _if(condition, inner)
