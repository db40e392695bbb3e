"""Settings of training jobs. Source: docs/jobs.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from bus.events.policies import Mode, switch
from reactors.engine.settings import ReactorPolicy

if TYPE_CHECKING:
    from reactors.jobs.shape import Job, JobPass, Rules, SeenJob


class JobsPolicy(ReactorPolicy):
    """By which rules jobs are run."""

    #: ``operator``: as Kubeflow's training operator v1 decides, with its faults; what a shadow beside it should have. ``bursar``:
    #: without them (docs/jobs.md names each).
    rules: Literal["operator", "bursar"] = "operator"
    #: The scheduler that starts a job's pods together by a PodGroup, as the operator's ``--gang-scheduler-name``: ``volcano``, or
    #: any that reads those of scheduler-plugins; in mode ``on`` also ``kube-scheduler``, by Kubernetes' own. "" = no PodGroups.
    gang_scheduler: str = Field("", max_length=253)
    #: Which jobs are run in mode ``on``. ``marked``: those whose ``runPolicy.managedBy`` is ``bursar.io/jobs``. ``all``: also those
    #: that name nobody, where no operator runs; one of which another program makes a pod is left to it.
    runs: Literal["marked", "all"] = "marked"

    @property
    def follows(self) -> frozenset[str]:
        """Services of jobs: nobody else asks for them."""
        return frozenset({"Service"})

    def reconciled(self, job: Job, seen: SeenJob, now_us: int, mode: Mode) -> JobPass:
        """One look at a job by these rules."""
        # A question to the reactors where there is no job should not pay for the import.
        from reactors.jobs.passes import reconciled

        return reconciled(job, seen, now_us, self.rules_in(mode))

    def rules_in(self, mode: Mode) -> Rules:
        """The rules in force in a mode."""
        from reactors.jobs.shape import Rules

        return Rules(self.rules == "operator", self.runs if mode == "on" else "")


class JobsSettings(BaseModel):
    """Whether training jobs are run, or their steps are decided beside their operator."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``off``: nothing is decided. ``shadow``: which pods a training job needs, which are replaced, and what its status
    #: says, is decided and recorded beside the operator that runs it. ``on``: jobs are run, by Bursar's own rules.
    mode: Annotated[Mode, BeforeValidator(switch)] = "off"
    policy: JobsPolicy = JobsPolicy()

    @model_validator(mode="after")
    def _fits(self) -> JobsSettings:
        if self.mode != "on":
            return self
        if self.policy.rules == "operator" and "rules" in self.policy.model_fields_set:
            raise ValueError(
                "jobs.policy.rules is operator: in mode on Bursar runs jobs by its own rules; leave it out"
            )
        return self

    def wanted(self, environment: Mapping[str, str]) -> tuple[Mode, JobsPolicy]:
        """Mode and policy as they are set; who runs jobs does so by Bursar's own rules."""
        if self.mode == "on":
            return self.mode, self.policy.model_copy(update={"rules": "bursar"})
        return self.mode, self.policy

    def announcement(self, mode: Mode) -> str:
        """What ``bursar up`` says of training jobs when it starts; "" where nobody asked for it."""
        if mode == "on":
            whose = (
                "all that name nobody else" if self.policy.runs == "all" else "those marked for it"
            )
            return f"on: training jobs are run, {whose}"
        if mode == "off":
            return ""
        return "shadow: the next steps of training jobs are decided and recorded, and none is done"
