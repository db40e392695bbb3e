"""``kubectl bursar``: questions to the Bursar of a cluster, through the API server and with the rights of one's kubeconfig.

Two requests: a token of ten minutes for an account with the right to ask, made for Bursar alone; and the question, through the
API server's own proxy of services. So the kubeconfig's own credentials never leave the API server, no port is forwarded,
and no ledger or data folder is needed here. Bursar's own code lays answers out, for this terminal's width.

Source: docs/operating.md, "Remote queries"; Kubernetes, "Extend kubectl with plugins", "TokenRequest".
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from bus.errors import BursarError
from bus.kube import client
from deploy.api.callers import AUDIENCE
from deploy.api.questions import QUESTIONS, Query, address, question
from deploy.cli.program.exits import Exit, exit_of
from deploy.cli.program.program import run_command
from deploy.cli.rendering import Format
from deploy.cli.rendering.output import as_json, say
from deploy.errors import SettingsError
from deploy.settings.environment import environment

#: Lifetime of a token: the shortest of an API server.
TOKEN_SECONDS = 600
_HELP = """kubectl bursar QUESTION [OPTIONS]: what a cluster's Bursar knows, asked through the API server.

  kubectl bursar report --by team,day --from month
  kubectl bursar acct -n vision -o csv
  kubectl bursar why vision/train-7
  kubectl bursar QUESTION --help            its options

Questions: {questions}

  --context NAME, --kubeconfig FILE         as for kubectl
  --account NAMESPACE/NAME                  ask as this service account (bursar-system/bursar-reader)
  --service NAMESPACE/NAME                  where Bursar answers (bursar-system/bursar-api)"""


@dataclass
class Target:
    """The cluster in question, the asking account, and the address of Bursar there."""

    context: str = ""
    kubeconfig: str = ""
    account: str = "bursar-system/bursar-reader"
    service: str = "bursar-system/bursar-api"

    def take(self, arguments: list[str]) -> list[str]:
        """Take the plugin's own options; the rest of the arguments. Raises SettingsError."""
        rest, left = [], iter(arguments)
        for one in left:
            name, sign, value = one.removeprefix("--").partition("=")
            if one.startswith("--") and name in ("context", "kubeconfig", "account", "service"):
                setattr(self, name, value if sign else next(left, ""))
            else:
                rest.append(one)
        for name in (self.account, self.service):
            if len(name.split("/")) != 2:
                raise SettingsError(f"{name[:64]!r} is not NAMESPACE/NAME")
        return rest


def main() -> NoReturn:
    """Ask the question of the command line, and end with the answer's exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """One question; its exit code, the same as ``bursar``'s."""
    target = Target()
    try:
        rest = target.take(arguments)
        words = next((w for w in (rest[:2], rest[:1]) if " ".join(w) in QUESTIONS), None)
        if words is not None and {"-h", "--help"} & {*rest}:
            return run_command([*words, "--help"])
        if words is None:
            print(_HELP.format(questions=", ".join(QUESTIONS)), file=sys.stderr)
            return Exit.OK if {"-h", "--help"} & {*rest} else Exit.USAGE
        return _show(*asyncio.run(_asked(target, words, rest[len(words) :])))
    except KeyboardInterrupt:
        return 130
    except BursarError as error:
        say(f"kubectl bursar: {_words(error)}")
        return exit_of(error)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        say(f"kubectl bursar: {error.format_message()}")
        return Exit.USAGE


async def _asked(
    target: Target, words: list[str], rest: list[str]
) -> tuple[Format, Mapping[str, Any]]:
    """The answer of the cluster. Raises the adapter's errors, and SettingsError."""
    query = question(words, rest)
    output = Format(dict(query).get("output", Format.TABLE))
    access = client.discover(environment(), target.kubeconfig, target.context)
    if access is None:
        raise SettingsError("no cluster found: no kubeconfig")
    cluster = await client.connect(access, trust_env=True)
    try:
        namespace, account = target.account.split("/")
        made = await cluster.create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
            {"spec": {"audiences": [AUDIENCE], "expirationSeconds": TOKEN_SECONDS}},
        )
        namespace, service = target.service.split("/")
        path = f"/api/v1/namespaces/{namespace}/services/https:{service}:questions/proxy/v1"
        asked = address(words, [*query, *_added(query, output)])
        return output, await cluster.ask(f"{path}/{asked}", {"token": made["status"]["token"]})
    finally:
        await cluster.close()


def _added(query: Query, output: Format) -> Query:
    """The query with two more parameters: the format, and the width of the reading terminal."""
    added = [] if "output" in dict(query) else [("output", str(output))]
    if sys.stdout.isatty():
        added.append(("width", str(min(shutil.get_terminal_size().columns, 1_000))))
    return added


def _show(output: Format, answer: Mapping[str, Any]) -> int:
    text = answer["answer"]
    if output is Format.JSON and not isinstance(text, str):
        text = as_json(text) + "\n"
    sys.stdout.write(text)
    sys.stdout.flush()
    for note in answer["notes"]:
        say(note)
    is_noted = output in (Format.TABLE, Format.WIDE) or any("as of event" in note for note in answer["notes"])  # fmt: skip
    if answer["sequence"] is not None and not is_noted:
        say(f"as of event {answer['sequence']:,}")
    return int(answer["code"])


def _words(error: BursarError) -> str:
    """The message of the API server or Bursar, and the missing part, if known."""
    message = str(error.fields.get("message") or error)
    permission = error.fields.get("permission")
    return f"{message} ({permission})" if permission and str(permission) not in message else message
