"""Every public function, class and method of the product is reached by the product itself, not by tests alone.

What only tests call is finished nowhere: wire it to what a user does, or delete it.
"""

import ast

import pytest

from tests.architecture.reachable import Product

#: Modules, or their definitions, that others call by name, with who does.
ENTRIES = {
    "migrations.versions": "alembic runs `upgrade` and `downgrade` of each step",
    "bus.crashpoints.install": "tests install what happens at a crash point; the product only passes them",
}
METHODS = {
    "bus.notebooks.prober._Reading.on_header": "httptools calls it",
    "bus.notebooks.prober._Reading.on_headers_complete": "httptools calls it",
    "bus.notebooks.prober._Reading.on_body": "httptools calls it",
    "bus.notebooks.prober._Reading.on_message_complete": "httptools calls it",
    **{
        f"bus.kube.client.connections._Connection.{name}": "httptools or the event loop calls it"
        for name in (
            "on_header", "on_body", "on_message_complete", "connection_made", "connection_lost", "data_received",
        )
    },
    **{
        f"reactors.webhook.connections.Connection.{name}": "httptools or the event loop calls it"
        for name in (
            "on_message_begin", "on_url", "on_header", "on_headers_complete", "on_body", "on_message_complete",
            "connection_made", "connection_lost", "data_received", "pause_writing",
        )
    },
}  # fmt: skip


def is_listed(name, entries):
    return any(name == one or name.startswith(f"{one}.") for one in entries)


@pytest.fixture(scope="module")
def product():
    return Product()


def unreached(product):
    roots = [
        (module, name)
        for module, found in product.modules.items()
        for name in ("main", "register")
        if module.startswith(("deploy.cli", "deploy.api", "deploy.processes"))
        and name in found.definitions
    ]
    reached = product.reached(roots)
    for module, found in product.modules.items():
        for name in found.definitions:
            if not name.startswith("_") and (module, name) not in reached:
                yield f"{module}.{name}"


def test_no_function_or_class_is_there_for_tests_alone(product):
    assert [name for name in unreached(product) if not is_listed(name, ENTRIES)] == []


def test_no_method_is_there_for_tests_alone(product):
    named = product.named
    alone = {".".join(found) for found in product.methods() if not named[found[-1]]}

    assert alone - METHODS.keys() == set()


def test_every_exception_is_one_still(product):
    """An entry that is reached, or gone, is taken off the list."""
    left = list(unreached(product))
    named = product.named
    alone = {".".join(found) for found in product.methods() if not named[found[-1]]}

    assert [one for one in ENTRIES if not any(is_listed(name, (one,)) for name in left)] == []
    assert METHODS.keys() - alone == set()


def test_what_only_a_dead_function_calls_is_dead_too():
    """And what a package hands on is not called by that; a decorator of a framework calls what it is given."""
    trees = {
        "p": "from p.m import dead, live\n__all__ = ['dead', 'live']",
        "p.m": "def dead():\n    below()\ndef below(): ...\ndef live(): ...\n@command\ndef told(): ...",
        "p.n": "import p\np.live()",
    }
    product = Product({name: ast.parse(text) for name, text in trees.items()})

    assert set(unreached(product)) == {"p.m.dead", "p.m.below"}
