"""Texts of the cluster's users made inert: control and direction characters are written as escapes. Pure.

Such characters could move a terminal's cursor or turn a line around.
Source: OWASP ASVS 1.2.10; Unicode Standard Annex 9 (directional formatting characters).
"""

from __future__ import annotations

import re

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

#: The same, without the characters allowed in a quoted CSV cell.
_UNPRINTABLE = re.compile(r"(?![\t\n])" + CONTROL.pattern)


def inert(text: str) -> str:
    """``text`` on one line, control and direction characters written as escapes."""
    return CONTROL.sub(_escaped, text)


def inert_cell(text: str) -> str:
    """``text`` as a quoted CSV cell: line ends and tabs stay."""
    return _UNPRINTABLE.sub(_escaped, text)


def escaped_in(document: str) -> str:
    """A JSON or YAML document. Its writer has escaped line ends in texts already, so the remaining ones are layout."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _escaped(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"
