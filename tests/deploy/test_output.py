"""Output: CSV cells that no spreadsheet runs, one line a message, and the rows alone in every format."""

import csv
import io
import json
import unicodedata

import pytest
import yaml

from deploy.cli.rendering import Format
from deploy.cli.rendering.escapes import inert
from deploy.cli.rendering.output import cell, write, write_csv

STARTS = ["=", "+", "-", "@", "\t", "\r", "\0", " =", "\n=", "\u00a0@"]
ENDS = [
    "cmd|' /C calc'!A0", 'HYPERLINK("http://x","y")', "1+1", "SUM(A1:A9)", "a", "", '"', ",", "\n", "=",
    "IMPORTXML(1)", "\x1b[2J", "x;y", "'", "DDE()", "@x", "<svg onload=1>", "\u202etxt", "ü", "0",
]  # fmt: skip
PAYLOADS = [start + end for start in STARTS for end in ENDS]


def test_two_hundred_formulas_are_text():
    file = io.StringIO()
    write_csv(["name", "n"], ([text, -1] for text in PAYLOADS), file)
    rows = list(csv.reader(io.StringIO(file.getvalue())))[1:]

    assert len(rows) == len(PAYLOADS) == 200
    assert all(row[0].startswith("'") and row[1] == "-1" for row in rows)


@pytest.mark.parametrize(
    ("value", "want"),
    [(None, ""), (-1, -1), (True, True), ("plain", "plain"), ("a=b", "a=b"), ({"a": 1}, '{"a": 1}')],
)  # fmt: skip
def test_cells_that_are_harmless_stay(value, want):
    assert cell(value) == want


def test_control_and_direction_characters_are_written_out():
    assert inert("a\x1b[2Jb\r\nX: y\u202e") == "a\\x1b[2Jb\\x0d\\x0aX: y\\x202e"


HOSTILE = "a\x1b[2J\x9b1m\u202egnp\u2066\u2028.\x7f\r\n\x00\x85'\""


@pytest.mark.parametrize(
    ("format", "read"), [(Format.JSON, json.loads), (Format.YAML, yaml.safe_load)]
)
def test_control_and_direction_characters_are_escaped_and_read_back(capsys, format, read):
    """C0, DEL, C1, embeddings, isolates and line separators, in keys as in values."""
    write([{HOSTILE: [HOSTILE, "grün\tx"]}], format)
    out = capsys.readouterr().out

    assert read(out) == [{HOSTILE: [HOSTILE, "grün\tx"]}]
    assert not any(
        unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp") for one in out.replace("\n", "")
    )


ROWS = [{"team": "blau", "pods": 1_234}, {"team": None, "pods": 0}]


@pytest.mark.parametrize(
    ("format", "read"),
    [(Format.JSON, json.loads), (Format.YAML, yaml.safe_load)],
)
def test_programs_get_the_rows_and_nothing_else(capsys, format, read):
    write(ROWS, format, title="Title", footer=["Footer"])

    assert read(capsys.readouterr().out) == ROWS


def test_a_table_has_thousands_apart_and_a_dash_for_nothing(capsys):
    write(ROWS, Format.TABLE, footer=["as of"])
    lines = capsys.readouterr().out.splitlines()

    assert [line.split() for line in lines if line.split()][-3:] == [
        ["blau", "1,234"],
        ["–", "0"],
        ["as", "of"],
    ]


def test_no_rows_still_have_a_header(capsys):
    write([], Format.CSV, columns=["a", "b"])

    assert capsys.readouterr().out == "a,b\n"
