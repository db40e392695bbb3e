"""Every probed kind of server, one line each."""

from __future__ import annotations

from bus.notebooks import code_server, gpu, jupyter, kubeflow, pod_cpu, rstudio, traffic
from bus.notebooks.contract import EvidenceKind

PROBES: tuple[EvidenceKind, ...] = (
    jupyter.kind,
    code_server.kind,
    rstudio.kind,
    kubeflow.kind,
    traffic.kind,
    gpu.kind,
    pod_cpu.kind,
)
