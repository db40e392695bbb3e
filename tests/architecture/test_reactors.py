"""The walls around the reactors: `deploy` iterates the catalogue and names none of them, and nothing is listed by hand."""

import importlib

from deploy.settings.reference import keys
from deploy.settings.shape import Settings
from reactors.catalogue import REACTORS
from reactors.engine.contract import Reactor
from tests.architecture.product import ROOT, files, imports, module_name

#: Verbs of one activity, and the questions that they ask the ledger, name that activity.
VERBS = (
    "deploy.cli.",
    "deploy.queries.lab",
    "deploy.queries.notebooks",
    "deploy.queries.scheduling",
    "deploy.commands.bench_bind",
)


def test_deploy_names_no_reactor_but_in_the_verbs_of_one():
    folders = {reactor.state.__module__.rpartition(".")[0] for reactor in REACTORS}
    naming = {
        module_name(path)
        for path in files("deploy")
        if not module_name(path).startswith(VERBS)
        and any(
            (found + ".").startswith(tuple(f"{f}." for f in folders)) for found in imports(path)
        )
    }

    assert set() == naming


def test_every_module_that_ends_in_a_reactor_is_in_the_catalogue():
    modules = (importlib.import_module(module_name(path)) for path in files("reactors"))
    defined = {
        (module.__name__, module.reactor.name)
        for module in modules
        if module.__name__.endswith(".reactor") and isinstance(module.reactor, Reactor)
    }
    folders = {one.name: one.state.__module__.rpartition(".")[0] for one in REACTORS}

    assert defined == {(f"{folder}.reactor", name) for name, folder in folders.items()}


def test_every_reactor_has_a_section_of_the_settings_that_is_made_from_it():
    sections = {reactor.name: reactor.settings for reactor in REACTORS}
    known = {name: Settings.model_fields[name].annotation for name in sections}

    assert sections == known
    assert set(sections) <= {key.place[0] for key in keys()}


def test_tests_of_lower_layers_need_no_deploy():
    """A reactor is tested with what it is made of."""
    naming = {
        str(path.relative_to(ROOT))
        for folder in ("bus", "projections", "reactors")
        for path in (ROOT / "tests" / folder).rglob("*.py")
        if any(found.split(".")[0] == "deploy" for found in imports(path))
    }

    assert set() == naming


def test_the_machine_imports_no_reactor():
    folders = {reactor.state.__module__.rpartition(".")[0] for reactor in REACTORS}
    engine = {
        found
        for path in files("reactors/engine")
        for found in imports(path)
        if (found + ".").startswith(tuple(f"{f}." for f in folders))
    }

    assert set() == engine
