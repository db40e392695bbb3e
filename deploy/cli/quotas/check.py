"""``bursar quota check``: the decision on these manifests now, and after a refusal the least change to be admitted."""

from __future__ import annotations

from typing import Annotated, Any

import sqlalchemy as sa
import typer

from bus.clock import SECOND_US
from bus.kube.crds.keys import CASH, key_amount, key_text
from deploy.cli import times
from deploy.cli.notes.position import footer
from deploy.cli.options import Cluster, CommandContext, command
from deploy.cli.program.exits import Exit
from deploy.cli.rendering.answers import answer, field
from deploy.cli.rendering.layout import Cell
from deploy.cli.rendering.output import say
from deploy.cli.rendering.tables import Column
from deploy.commands.manifest_files import manifests
from deploy.queries.quotas import QuotaQueries, quota_queries
from projections.pod_runs import pod_runs
from projections.workloads import workloads
from reactors.admission.deciding.advice import Advice
from reactors.admission.reviewing.trial import AdmissionTrial, TrialAnswer
from reactors.webhook.registration import IGNORE_LABEL, SYSTEM_NAMESPACES

_FIELDS = (
    "object", "quota", "admitted", "reason", "message", "changes", "replicas_path", "replicas",
    "replicas_that_fit", "free", "raise_hard_to", "parent_has_room", "credit", "budget_resets_at",
    "largest_hard", "charge",
)  # fmt: skip
_COLUMNS = (
    Column("OBJECT", lambda row: Cell(row["object"])),
    field("QUOTA"),
    field("ADMITTED"),
    field("REASON"),
    Column("OR ELSE", lambda row: Cell("; or ".join(row["changes"]) or "–", "words")),
)


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    command(app, "check", of_cluster=True)(check)


def check(
    asked: CommandContext,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Manifests, YAML or JSON; - reads stdin.")
    ],
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="For objects that name none.")
    ] = "default",
    cluster: Cluster = None,
) -> None:
    """Would these objects be admitted now? If not: the smallest changes with which they would.

    The webhook's own rules decide on the ledger's quota trees. Nothing is sent and nothing is recorded. Objects of a file count
    one after the other. Each change alone is enough. Exit code 9 where an object would be refused.

    \b
    bursar quota check train.yaml
    kubectl kustomize . | bursar quota check - -n research
    """
    with quota_queries(asked.place, cluster) as queries:
        found = _evaluated(asked, queries, file, namespace)
        notes = footer(queries.sequence, queries.observed_us // SECOND_US)
        # The clock may be in a later period than the newest observation.
        period = str(times.stamp(queries.observed_us // SECOND_US))
    rows = [_row(one, period) for one in found]
    messages = [one.message for one in found if one.message]
    answer(asked, rows, fields=_FIELDS, columns=_COLUMNS, notes=[*messages, *notes])
    refused = sum(not one.is_admitted for one in found)
    if refused:
        say(f"{refused:,} of {len(found):,} objects would be refused")
        raise typer.Exit(Exit.NOT_ADMITTED)


def _evaluated(
    asked: CommandContext, queries: QuotaQueries, file: str, namespace: str
) -> list[TrialAnswer]:
    settings = asked.settings.admission
    exempt = {*SYSTEM_NAMESPACES, settings.namespace, *settings.exempt_namespaces}
    queries.view.requires_namespaces = settings.require_namespaces
    namespaces = queries.view.state.namespaces.values()
    exempt.update(one.name for one in namespaces if one.labels.get(IGNORE_LABEL) == "ignore")
    trial = AdmissionTrial(
        queries.journals.trees, queries.journals.places, queries.view,
        lambda *named: _uid(queries, *named), now_us=queries.observed_us, exempt=exempt,
    )  # fmt: skip
    return [trial.evaluate(one, namespace) for one in manifests(file)]


def _uid(queries: QuotaQueries, kind: str, namespace: str, name: str) -> str:
    """The uid of the existing object of this name; "" for none."""
    if not name:
        return ""
    if kind == "Pod":
        runs = pod_runs.c
        query = sa.select(runs.uid).where(
            runs.cluster == queries.cluster, runs.namespace == namespace, runs.name == name,
            runs.end_s.is_(None),
        )  # fmt: skip
    else:
        columns = workloads.c
        query = sa.select(columns.uid).where(
            columns.cluster == queries.cluster, columns.kind == kind,
            columns.namespace == namespace, columns.name == name, columns.vanished == 0,
        )  # fmt: skip
    return next((str(row[0]) for row in queries.select(query)), "")


def _row(evaluation: TrialAnswer, period: str) -> dict[str, Any]:
    advice = evaluation.advice
    name = f"{evaluation.namespace}/{evaluation.name}" if evaluation.namespace else evaluation.name
    return {
        "object": f"{evaluation.kind} {name}",
        "quota": evaluation.quota,
        "admitted": evaluation.is_admitted,
        "reason": evaluation.reason,
        "message": evaluation.message,
        "changes": changes(evaluation, period),
        "replicas_path": advice.path,
        "replicas": advice.replicas if advice.path else None,
        "replicas_that_fit": advice.fits,
        "free": advice.free,
        "raise_hard_to": advice.hard,
        "parent_has_room": advice.has_room_above,
        "credit": advice.credit,
        "budget_resets_at": times.stamp(advice.resets_s or None),
        "largest_hard": evaluation.largest,
        "charge": evaluation.decision.charge if evaluation.decision else {},
    }


def changes(evaluation: TrialAnswer, period: str) -> list[str]:
    """Changes that would each be enough to be admitted, the smallest first. ``period``: a moment of the spent one."""
    advice = evaluation.advice
    found = []
    if advice.fits is not None:
        found.append(f"{advice.path} {advice.replicas} -> {advice.fits}")
    given_back = f"wait until others give back {_amounts(advice.free)}" if advice.free else ""
    # Where both budget and limit refuse, neither change is enough alone.
    found += [
        f"{change}, and {given_back}" if given_back else change
        for change in _of_budgets(evaluation.quota, advice, period)
    ]
    if given_back and not advice.credit:
        found.append(given_back)
        if advice.hard:
            room = "admits that" if advice.has_room_above else "does not admit that now"
            hard = _amounts(advice.hard)
            found.append(f"raise quota {evaluation.quota!r} to {hard} (its tree {room})")
    if evaluation.largest:
        found.append(f"ask for {_amounts(evaluation.largest)}")
    return found


def _of_budgets(quota: str, advice: Advice, period: str) -> list[str]:
    if not advice.credit:
        return []
    credits = " and ".join(
        f"bursar budget credit {quota} {key} {_hours_up(key, amount)} --period {period} --reason TEXT"
        for key, amount in advice.credit.items()
    )
    resets = times.stamp(advice.resets_s or None)
    return [f"wait for the next period, {resets}", credits] if resets else [credits]


def _hours_up(key: str, amount: int) -> str:
    """The amount in hours, rounded up to the next thousandth, so it is enough."""
    thousandths = -(-amount * 1000 // key_amount(CASH + key, 1)[0])
    return f"{thousandths // 1000}.{thousandths % 1000:03d}".rstrip("0").rstrip(".")


def _amounts(amounts: dict[str, int]) -> str:
    return ", ".join(f"{key_text(key, amount)} of {key}" for key, amount in amounts.items())
