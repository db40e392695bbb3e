"""Rules of the house that an import contract cannot say: who reads the environment, who opens adapters.

Source: docs/architecture.md: sockets, files, clocks and transactions live only behind named adapters.
"""

import ast

import pytest

from tests.architecture.product import PACKAGES, ROOT, files, imports, module_name, nodes

#: Module → the only places of the product that may import it.
ADAPTERS = {
    "nats": ("bus.jetstream",),
    "kubernetes": ("bus.kube.client",),
    "sqlite3": (),
    "psycopg": (),
    "httpx": ("bus.notify", "bus.transparency_log"),
    "httptools": (
        "bus.kube.client.connections",
        "bus.notebooks.prober",
        "reactors.webhook.connections",
    ),
    "requests": (),
    "prometheus_client": ("bus.metrics",),
    "socket": ("reactors.webhook.listening",),
    "aiohttp": ("bus.kube.client",),
    "alembic": ("migrations",),
    "uvicorn": (),
    "minio": ("bus.object_store",),
    "opentelemetry": ("deploy.runtime.tracing",),
}


def importers(name):
    return {
        module_name(path)
        for path in files(*PACKAGES)
        if any(found == name or found.startswith(f"{name}.") for found in imports(path))
    }


def test_sources_stand_in_the_packages_and_the_tests_alone():
    beside = {path for path in ROOT.glob("*/") if not path.name.startswith(".")}
    found = {path.name for path in beside if next(path.rglob("*.py"), None)}

    assert {*PACKAGES, "tests"} == found


@pytest.mark.parametrize(("name", "adapters"), ADAPTERS.items(), ids=list(ADAPTERS))
def test_only_its_door_imports_a_library(name, adapters):
    strangers = {
        module
        for module in importers(name)
        if not any((module + ".").startswith(f"{d}.") for d in adapters)
    }

    assert set() == strangers


def test_the_engine_imports_no_projection():
    found = {
        (module_name(path), name)
        for path in files("projections/engine")
        for name in imports(path)
        if name.startswith("projections") and not name.startswith("projections.engine")
    }

    assert set() == found


def test_only_the_settings_read_the_environment():
    readers = {
        module_name(path)
        for path in files(*PACKAGES)
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and node.attr in ("environ", "getenv", "environb")
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    }

    # Where a store is, and who may ask it, is said as the AWS tools are told it, and by no setting.
    assert readers <= {"deploy.settings.environment", "bus.object_store"}


def test_only_the_clock_reads_the_wall_clock():
    readers = {
        f"{module_name(path)}.{node.attr}"
        for path in files("bus", "projections", "reactors", "migrations")
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and node.attr in ("time_ns", "utcnow", "today", "now", "time")
        and isinstance(node.value, ast.Name)
        and node.value.id in ("time", "datetime", "date")
    }

    assert readers <= {"bus.clock.time_ns"}


def test_only_one_module_uses_the_private_members_of_the_bus_client():
    """A member with an underscore is one's own, or it is nats-py's."""
    strangers = {
        f"{module_name(path)}: {ast.unparse(node)}"
        for path in files("bus/jetstream")
        for node in nodes(path)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and ast.unparse(node.value) != "self"
    }

    assert {one for one in strangers if "nats_internals" not in one} == set()


def test_who_expects_bytes_that_are_no_json_expects_bytes_that_are_no_text():
    """msgspec raises UnicodeDecodeError where a text is not UTF-8, which is no DecodeError."""
    enough = {"UnicodeDecodeError", "UnicodeError", "ValueError"}
    wrong = {
        f"{module_name(path)}:{node.lineno}"
        for path in files(*PACKAGES)
        for node in nodes(path)
        if isinstance(node, ast.ExceptHandler) and node.type is not None
        for caught in [{one.rpartition(".")[2] for one in named(node.type)}]
        if "DecodeError" in caught and not caught & enough
    }

    assert set() == wrong


def named(caught):
    """The names of what an `except` catches."""
    return [ast.unparse(one) for one in getattr(caught, "elts", [caught])]
