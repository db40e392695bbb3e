"""The attempt of each pod at a slot of a training job, as of a question's moment; lost time of restarts has their
cause.

Source: docs/jobs.md, docs/accounting.md.
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from bus.clock import SECOND_US

#: The dimensions with one value per attempt.
DIMENSIONS = frozenset({"job", "attempt", "cause"})


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """``attempt`` is 1 for the first pod in a slot; ``cause`` is empty until a later pod took the slot. A pod
    outside of jobs has empty values.
    """

    job: str = ""
    attempt: int | None = None
    cause: str = ""


NO_JOB = Attempt()


def attempts(connection: sa.Connection, as_of_s: int) -> dict[str, Attempt]:
    """The pods of training jobs by uid; pods in their slots after ``as_of_s`` are ignored."""
    # Most questions are about no job, and views are many lines.
    from projections.views.jobs import PLACES

    rows = connection.execute(sa.text(PLACES.sql[connection.dialect.name]))
    return {
        uid: Attempt(job, number, cause if _is_past(replaced_us, as_of_s) else "")
        for uid, job, number, cause, replaced_us in rows
    }


def _is_past(replaced_us: int | None, as_of_s: int) -> bool:
    return replaced_us is not None and replaced_us < as_of_s * SECOND_US
