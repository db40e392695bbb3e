"""Commands with answers over HTTPS, and their form as a path and a query. Pure but for importing the command.

``bursar quota show vision --at 12`` is ``/v1/quota/show?name=vision&at=12``: the words of the command, then its options by
their long names and its arguments by theirs. Options for files, servers or settings of the answering machine
are left out. So a question cannot reach beyond the ledger.

Source: docs/operating.md, "Remote queries".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from typer import Context

from deploy.cli.options import COMMON
from deploy.cli.program.program import program
from deploy.cli.rendering import Format
from deploy.errors import SettingsError

if TYPE_CHECKING:
    from typer._click import Command

#: Answered commands. Each reads only the ledger. `bursar sql` is left out: it is for a role of the database.
QUESTIONS = (
    "report", "acct", "diff", "devices", "get quotas", "quota tree", "quota show", "quota explain", "budget list",
    "budget forecast", "queue show", "why", "evictions", "notebooks", "jobs list", "jobs show", "jobs hours",
    "jobs agreement", "schedule queue", "schedule scores", "schedule agreement", "events", "parked list",
)  # fmt: skip
#: Unanswered options of every command: they name places of the answering machine, or ask repeatedly.
REFUSED = frozenset({*COMMON, "watch", "help", "context"}) - {"output"}

#: Name and value, in the given order. A flag has the value ``true``.
Query = Sequence[tuple[str, str]]


class UnknownQuestionError(SettingsError):
    """There is no such question, or it has no such option."""


def words_of(path: str) -> tuple[str, ...]:
    """The words of the command at a path below ``/v1/``. Raises UnknownQuestionError."""
    words = path.strip("/").replace("/", " ")
    if words not in QUESTIONS:
        raise UnknownQuestionError(
            f"there is no question {words[:64]!r}: {', '.join(QUESTIONS)} are answered"
        )
    return tuple(words.split())


def arguments(words: Sequence[str], query: Query) -> list[str]:
    """The command line of a question. A table is written unless the query says otherwise. Raises UnknownQuestionError."""
    known = {_key(one): one for one in _parameters(words)}
    options: list[str] = []
    positional: dict[str, str] = {}
    for name, value in query:
        parameter = known.get(name)
        if parameter is None:
            raise UnknownQuestionError(
                f"{' '.join(words)} has no option {name[:64]!r}: {', '.join(sorted(known))}"
            )
        if parameter.param_type_name == "argument":
            positional[name] = value
        elif not parameter.is_flag:
            options.append(f"--{name}={value}")
        elif value == "true":
            options.append(f"--{name}")
        else:
            raise UnknownQuestionError(f"{name} is a flag: {name}=true, or leave it out")
    # After this, nothing is an option, whatever its first character.
    return [*words, *options, "--", *positional.values()]


def namespace_of(query: Query) -> str:
    """The one namespace of a query; "" if it names none, or several."""
    found = {value for name, value in query if name == "namespace"}
    return found.pop() if len(found) == 1 else ""


def question(words: Sequence[str], rest: Sequence[str]) -> Query:
    """The query of the typed words after a command. Raises the command line's errors, and SettingsError."""
    command = _command(words)
    with Context(command, info_name=" ".join(words)) as context:
        values, extra, order = command.make_parser(context).parse_args(list(rest))
        if extra:
            raise SettingsError(f"unexpected {extra[0][:64]!r}")
        return list(_given(dict.fromkeys(order), values))


def _given(parameters: Iterable[Any], values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for one in parameters:
        value = values.get(one.name)
        if one.name in REFUSED:
            raise SettingsError(
                f"--{one.name.replace('_', '-')} is not for questions to a cluster: `bursar` has it"
            )
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, bool):
                yield _key(one), "true"
            elif isinstance(part, str):
                yield _key(one), part


def address(words: Sequence[str], query: Query) -> str:
    """The path of a question below ``/v1/``, with its query."""
    return f"{'/'.join(words)}?{urlencode(query)}"


def format_of(query: Query) -> Format:
    """How the answer is written; as JSON unless the query says otherwise. Raises UnknownQuestionError."""
    wanted = dict(query).get("output", Format.JSON)
    try:
        return Format(wanted)
    except ValueError:
        raise UnknownQuestionError(f"output={wanted[:64]}: {', '.join(Format)} are there") from None


def _parameters(words: Sequence[str]) -> list[Any]:
    command = _command(words)
    with Context(command) as context:
        return [one for one in command.get_params(context) if one.name not in REFUSED]


def _command(words: Sequence[str]) -> Command:
    command: Any = program()
    with Context(command) as context:
        for word in words:
            command = command.get_command(context, word)
    found: Command = command
    return found


def _key(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.name)
    return str(max(parameter.opts, key=len)).removeprefix("--")
