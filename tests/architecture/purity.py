"""Which impure things a function does, itself or through the functions of ours that it calls.

Names are resolved as Python would: in the function's own globals. A method is followed by its name, in every class of the
modules that are reached, since the type of its object is not known here.
"""

import ast
import builtins
import functools
import inspect
import logging
import textwrap
import types

FORBIDDEN_MODULES = frozenset(
    "asyncio ftplib http httpx kubernetes multiprocessing nats os pathlib psycopg random requests secrets select shutil "
    "signal smtplib socket sqlite3 ssl subprocess tempfile threading time urllib".split()
)  # fmt: skip
FORBIDDEN_BUILTINS = frozenset({"open", "input", "print", "exec", "eval", "__import__"})
#: Parts of them that only calculate.
PURE_MODULES = frozenset({"urllib.parse"})
#: Methods by which a clock is read or a statement run, whatever the object is.
FORBIDDEN_METHODS = frozenset(
    "now utcnow today now_us monotonic perf_counter execute executemany exec_driver_sql scalars fetchall fetchone "
    "environ getenv urandom uuid1 uuid4".split()
)  # fmt: skip
LOUD = frozenset({"info", "warning", "error", "exception", "critical", "log"})


def faults(function, packages):
    """Sentences about everything impure that ``function`` reaches; empty for a pure one."""
    found, seen, waiting = [], set(), [_bare(function)]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        own, called = _looked_at(current, packages)
        found += own
        waiting += called
    return sorted(found)


@functools.cache
def _looked_at(function, packages):
    """What a function does itself, and which functions of ours it calls. Many reach the same ones."""
    body = _syntax(function)
    if body is None:
        return (), ()
    where, inner = f"{function.__module__}.{function.__qualname__}", list(ast.walk(body))
    own = tuple(f"{where}: {fault}" for fault in _own_faults(inner, function))
    return own, tuple(_called(inner, function, packages))


def _bare(function):
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return getattr(function, "__func__", function)


def _syntax(function):
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


def _own_faults(nodes, function):
    for node in nodes:
        if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef)):
            yield "awaits"
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            yield f"assigns {', '.join(node.names)} outside itself"
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield "imports while it runs"
        elif isinstance(node, ast.Attribute):
            yield from _attribute_faults(node, function)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from _name_faults(node.id, function)


def _attribute_faults(node, function):
    if node.attr in FORBIDDEN_METHODS:
        yield f"uses .{node.attr}"
    owner = _resolved(node.value, function)
    if isinstance(owner, logging.Logger) and node.attr in LOUD:
        yield f"logs at {node.attr}"


def _name_faults(name, function):
    thing = function.__globals__.get(name, getattr(builtins, name, None))
    if name in FORBIDDEN_BUILTINS and thing is getattr(builtins, name, None):
        yield f"calls {name}"
    module = thing.__name__ if isinstance(thing, types.ModuleType) else None
    if module is None and callable(thing):
        module = getattr(thing, "__module__", None)
    if module is None or module in PURE_MODULES:
        return
    if module.partition(".")[0].lstrip("_") in FORBIDDEN_MODULES:
        yield f"uses {module}"


def _resolved(node, function):
    """What a dotted name stands for; None where it is no global."""
    if isinstance(node, ast.Name):
        return function.__globals__.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _resolved(node.value, function)
        if isinstance(owner, (types.ModuleType, type)):
            return getattr(owner, node.attr, None)
    return None


def _called(nodes, function, packages):
    """Functions of ours that are named in a body: as globals, as methods, as classes that are made."""
    for node in nodes:
        if not isinstance(node, (ast.Name, ast.Attribute)):
            continue
        thing = _resolved(node, function)
        if thing is None and isinstance(node, ast.Attribute):
            yield from _methods(node.attr, function, packages)
        elif isinstance(thing, type):
            if _ours(thing, packages) and inspect.isfunction(thing.__dict__.get("__init__")):
                yield thing.__init__
        elif callable(thing) and _ours(bare := _bare(thing), packages) and inspect.isfunction(bare):
            yield bare


def _methods(name, function, packages):
    for thing in list(function.__globals__.values()):
        if isinstance(thing, type) and _ours(thing, packages):
            method = _bare(thing.__dict__.get(name, None))
            if isinstance(method, property):
                method = method.fget
            if inspect.isfunction(method):
                yield method


def _ours(thing, packages):
    return (getattr(thing, "__module__", None) or "").partition(".")[0] in packages
