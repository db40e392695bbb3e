"""The reference of all settings. Each has its key, type, default, unit, environment variable and meaning.

    python -m deploy.settings.reference > docs/settings.md

Read from the models and the comments above their fields, so the page always equals the program.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator
from functools import cache
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from deploy.settings.addresses import SHORT_FORMS
from deploy.settings.shape import Settings

_INTRO = """# Settings

Each of them can stand in one YAML file (`--config FILE` or `BURSAR_CONFIG`), nested as the keys are:

```yaml
cluster:
  name: prod
culling:
  mode: on
  policy:
    idle_seconds: 7200
```

or in the environment variable beside it (lists and mappings as JSON). Options of the command line are stronger than the
environment, and that than the file. An unknown key is an error. `bursar config show` says which values are in force here, and where
each comes from. Written by `make docs`; do not edit.
"""


class Key(msgspec.Struct, frozen=True):
    """One setting."""

    place: tuple[str, ...]
    takes: str
    default: Any
    unit: str
    meaning: str
    is_secret: bool = False

    @property
    def name(self) -> str:
        """As it is written: ``culling.policy.idle_seconds``."""
        return ".".join(self.place)

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables of it, the short form first."""
        long = "BURSAR_" + "__".join(self.place).upper()
        short = {full.upper(): name.upper() for name, full in SHORT_FORMS.items()}.get(long)
        return (short, long) if short else (long,)


def keys(model: type[BaseModel] = Settings, above: tuple[str, ...] = ()) -> Iterator[Key]:
    """All settings, in the order of declaration."""
    comments = _comments(model)
    for name, field in model.model_fields.items():
        kind, place = field.annotation, (*above, name)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys(kind, place)
            continue
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        is_secret = SecretStr in (kind, *get_args(kind))
        meaning = comments.get(name, "")
        yield Key(place, _takes(field), default, _unit(name), meaning, is_secret)


def text(value: Any) -> str:
    """A value in the form of the settings file; "" for none."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | set | frozenset):
        items = [text(one) for one in value]
        return ", ".join(sorted(items) if isinstance(value, set | frozenset) else items)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {text(one)}" for key, one in value.items())
    if isinstance(value, BaseModel):
        shown = value.model_dump_json(exclude_defaults=True)
        # A value equal to the defaults is shown by its first field.
        return (
            shown
            if shown != "{}"
            else value.model_dump_json(include={next(iter(type(value).model_fields))})
        )
    return "" if value is None else str(value)


def page() -> str:
    """``docs/settings.md``."""
    parts: dict[str, list[Key]] = {}
    for key in keys():
        parts.setdefault(key.place[0], []).append(key)
    lines = [_INTRO]
    for part, found in parts.items():
        model = Settings.model_fields[part].annotation
        is_part = isinstance(model, type) and issubclass(model, BaseModel)
        about = (inspect.getdoc(model) or "").split("\n\n")[0] if is_part else ""
        lines += [f"## {part}", "", *([_cell(about), ""] if about else [])]
        lines += [
            "| key | takes | default | unit | environment | meaning |",
            "|---|---|---|---|---|---|",
        ]
        for key in found:
            shown = text(key.default)
            default = f"`{shown}`" if shown else "–"
            if key.name == "data":
                default = "`~/.local/share/bursar`"
            variables = "<br>".join(f"`{name}`" for name in key.variables)
            row = (
                f"`{key.name}`",
                key.takes,
                _cell(default),
                key.unit or "–",
                variables,
                _cell(key.meaning) or "–",
            )
            lines.append(f"| {' | '.join(row)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _cell(words: str) -> str:
    return (
        re.sub(r":\w+:`~?([^`]*)`", r"`\1`", words)
        .replace("``", "`")
        .replace("|", "\\|")
        .replace("\n", " ")
    )


def _takes(field: FieldInfo) -> str:
    words = _kind(field.annotation)
    found = [*field.metadata]
    for one in get_args(field.annotation):
        for more in getattr(one, "__metadata__", ()):
            found += getattr(more, "metadata", [more])
    bounds = []
    for one in found:
        for sign, name in ((">=", "ge"), (">", "gt"), ("<=", "le"), ("<", "lt")):
            if (bound := getattr(one, name, None)) is not None:
                bounds.append(f"{sign} {bound:,}")
    return f"{words} {' and '.join(bounds)}".strip()


def _kind(kind: Any) -> str:
    origin = get_origin(kind)
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in get_args(kind))
    if origin is typing.Annotated:
        return _kind(get_args(kind)[0])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_kind(one) for one in get_args(kind) if one is not types.NoneType)
    if origin in (tuple, frozenset, list):
        return f"list of {_kind(get_args(kind)[0])}s"
    if origin is dict:
        return f"mapping of texts to {_kind(get_args(kind)[1])}s"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "mapping"
    known = {
        str: "text",
        SecretStr: "text",
        bool: "`true`, `false`",
        int: "integer",
        float: "number",
        Path: "path",
        IPv4Network: "IPv4 network",
        IPv6Network: "IPv6 network",
    }
    return known.get(kind, getattr(kind, "__name__", str(kind)))


def _unit(name: str) -> str:
    for ending in ("seconds", "minutes", "hours", "bytes"):
        if name.endswith(ending):
            return ending
    if name.startswith("per_"):
        return "in a minute" if name == "per_minute" else "in five minutes"
    return ""


@cache
def _comments(model: type[BaseModel]) -> dict[str, str]:
    """The ``#:`` comment above each field."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not (
            issubclass(base, BaseModel)
            and base.__module__.split(".")[0] in ("deploy", "reactors", "bus")
        ):
            continue
        comments: list[str] = []
        meaning = ""
        for line in inspect.getsource(base).splitlines():
            stripped = line.strip()
            if stripped.startswith("#:"):
                comments.append(stripped.removeprefix("#:").strip())
            elif (field := re.match(r"    (\w+): ", line)) and field[1] in model.model_fields:
                # A comment above several fields is about all of them.
                meaning = " ".join(comments) or meaning
                found[field[1]], comments = meaning, []
            else:
                comments, meaning = [], ""
    return found


if __name__ == "__main__":
    print(page(), end="")
