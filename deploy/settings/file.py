"""The settings file: YAML, read strictly, with the line of every key.

Only mappings, lists and plain values: no tags for objects, no anchors (an alias may unfold to gigabytes), no key
twice. Lines are kept, so messages can point to one.

Source: docs/wrong-input.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from deploy.errors import SettingsError

#: Largest settings file in bytes.
LARGEST = 1024 * 1024

#: Types of a value.
_PLAIN = {"map", "seq", "str", "int", "float", "bool", "null"}


class SettingsFile(msgspec.Struct, frozen=True):
    """The content of a file, with the line of each key."""

    path: Path
    values: dict[str, Any]
    lines: dict[tuple[str, ...], int]

    def line(self, place: tuple[str, ...]) -> int:
        """The line of a key or of the nearest key above it; 0 where the file does not say it."""
        while place:
            if place in self.lines:
                return self.lines[place]
            place = place[:-1]
        return 0


def read_settings_file(path: Path) -> SettingsFile:
    """The file at ``path``; an empty one has no keys. Raises SettingsError naming path and line."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    if len(raw) > LARGEST:
        raise SettingsError(f"{path}: larger than {LARGEST} bytes")
    lines: dict[tuple[str, ...], int] = {}
    try:
        text = raw.decode("utf-8-sig")
        for token in yaml.scan(text, yaml.SafeLoader):
            if isinstance(token, yaml.AnchorToken | yaml.AliasToken):
                raise _refused(path, token.start_mark, "anchors and aliases are not taken")
        root = yaml.compose(text, yaml.SafeLoader)
        values = {} if root is None else _value(path, root, (), lines)
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8") from None
    except yaml.MarkedYAMLError as error:
        problem = error.problem or "not YAML"
        raise _refused(path, error.problem_mark or error.context_mark, problem) from None
    except (yaml.YAMLError, RecursionError):
        raise SettingsError(f"{path}: not YAML") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{path}, line 1: the file is no mapping of settings")
    return SettingsFile(path, values, lines)


def _value(
    path: Path, node: yaml.Node, place: tuple[str, ...], lines: dict[tuple[str, ...], int]
) -> Any:
    if node.tag.removeprefix("tag:yaml.org,2002:") not in _PLAIN:
        raise _refused(path, node.start_mark, "tags are not taken")
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.tag.endswith(":str"):
                raise _refused(path, key_node.start_mark, "a key is no text")
            key = key_node.value
            if key in found:
                raise _refused(path, key_node.start_mark, f"{key[:64]!r} is there twice")
            lines[(*place, key)] = key_node.start_mark.line + 1
            found[key] = _value(path, value_node, (*place, key), lines)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(path, item, place, lines) for item in node.value]
    loader = yaml.SafeLoader("")
    try:
        # The safe constructor of one scalar: no object can be built from it.
        return loader.construct_object(node)
    finally:
        loader.dispose()


def _refused(path: Path, mark: yaml.Mark | None, why: str) -> SettingsError:
    line = f", line {mark.line + 1}" if mark is not None else ""
    return SettingsError(f"{path}{line}: {why}")
