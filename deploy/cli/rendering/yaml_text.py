"""Answers as YAML, with control and direction characters as escapes."""

from __future__ import annotations

from typing import Any

import yaml

from deploy.cli.rendering.escapes import CONTROL, escaped_in


class _Dumper(yaml.SafeDumper):
    """Writes a text with control or direction characters in double quotes, since only that form has escapes."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """A text as a scalar."""
        style = '"' if CONTROL.search(text) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def as_yaml(value: Any) -> str:
    """A value as YAML, control and direction characters as escapes."""
    return escaped_in(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True))
