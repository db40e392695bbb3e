"""A forgotten line in a catalogue fails here: vocabulary, projections, tables, crash labels."""

import ast
import importlib
from collections import Counter

import pytest
import sqlalchemy as sa

from bus.crashpoints import LABELS
from bus.events import VOCABULARY
from bus.events.vocabulary import Fact
from projections.catalogue import METADATA, MODEL
from tests.architecture.product import PACKAGES, ROOT, files, module_name, nodes


def modules(folder):
    return [importlib.import_module(module_name(path)) for path in files(folder)]


def test_every_fact_in_the_events_folder_is_in_the_vocabulary():
    said = {
        thing
        for module in modules("bus/events")
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Fact) and thing.wire_type
    }

    assert said == set(VOCABULARY.values())


def test_every_fact_is_called_entity_dot_participle():
    assert all(name.count(".") == 1 and name == name.lower() for name in VOCABULARY)


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("projection", MODEL.projections),
        ("derivation", MODEL.derivations),
        ("sums", MODEL.sums),
    ],
)
def test_every_module_that_ends_in_a_part_of_the_model_is_in_the_catalogue(name, listed):
    contract = type(listed[0])
    defined = {
        id(thing)
        for module in modules("projections")
        if isinstance(thing := vars(module).get(name), contract)
    }

    assert defined == {id(part) for part in listed}


def test_the_tables_of_the_model_are_those_of_its_parts():
    parts = [projection.table for projection in MODEL.projections]
    parts += [table for derivation in MODEL.derivations for table in derivation.tables]
    parts += [table for one in MODEL.sums for table, _ in one.tables]

    assert sorted(t.name for t in parts) == sorted(t.name for t in MODEL.tables)


def test_every_table_is_rebuilt_by_replay_or_belongs_to_the_machinery():
    machinery = {
        thing.name
        for module in modules("projections/engine")
        for thing in vars(module).values()
        if isinstance(thing, sa.Table) and thing.metadata is METADATA
    }

    assert set(METADATA.tables) == {table.name for table in MODEL.tables} | machinery


def test_every_table_of_rows_says_which_event_touched_a_row_last():
    assert all("sequence" in table.columns for table in MODEL.tables)


def labels_used():
    """How often each label stands in a call of ``crashpoint``; a label that is no literal counts as None."""
    used = Counter()
    for path in files(*PACKAGES):
        for node in nodes(path):
            if isinstance(node, ast.Call) and _name(node.func) == "crashpoint":
                label = node.args[0]
                used[label.value if isinstance(label, ast.Constant) else None] += 1
    return used


def _name(function):
    return getattr(function, "attr", getattr(function, "id", None))


def test_every_crash_label_is_in_the_list():
    assert set(labels_used()) - set(LABELS) == set()


def test_every_listed_crash_label_is_used_exactly_once():
    assert dict.fromkeys(LABELS, 1) == dict(labels_used())


def test_the_checkout_is_where_this_test_thinks_it_is():
    assert (ROOT / "pyproject.toml").exists()
