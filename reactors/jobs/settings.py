"""What may be set of training jobs. Source: docs/jobs.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from bus.events.policies import Mode, switch
from reactors.engine.settings import ReactorPolicy

if TYPE_CHECKING:
    from reactors.jobs.shape import Job, Pass, Seen


class JobsPolicy(ReactorPolicy):
    """By which rules jobs are run."""

    #: ``operator``: as Kubeflow's training operator v1 decides, with its faults; what a shadow beside it should have. ``bursar``:
    #: without them (docs/jobs.md names each).
    rules: Literal["operator", "bursar"] = "operator"
    #: The scheduler that the operator starts pods together with, as its ``--gang-scheduler-name`` says. "" = none.
    gang_scheduler: str = Field("", max_length=253)

    def reconciled(self, job: Job, seen: Seen, now_us: int) -> Pass:
        """One look at a job by these rules."""
        # A question to the reactors where there is no job should not pay for the import.
        from reactors.jobs.passes import reconciled
        from reactors.jobs.shape import Rules

        return reconciled(job, seen, now_us, Rules(is_v1=self.rules == "operator"))


class JobsSettings(BaseModel):
    """Whether the steps of training jobs are decided."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``off``: nothing is decided. ``shadow``: which pods a TFJob or PyTorchJob needs, which are replaced, and what its status
    #: says, is decided and recorded beside the operator that runs it. Nothing is done: a mode ``on`` does not exist yet.
    mode: Annotated[Literal["off", "shadow"], BeforeValidator(switch)] = "off"
    policy: JobsPolicy = JobsPolicy()

    def wanted(self, environment: Mapping[str, str]) -> tuple[Mode, JobsPolicy]:
        """Mode and policy as they are set."""
        return self.mode, self.policy

    def told(self, mode: Mode) -> str:
        """What ``bursar up`` says of training jobs when it starts; "" where nobody asked for it."""
        if mode == "off":
            return ""
        return "shadow: the next steps of training jobs are decided and recorded, and none is done"
