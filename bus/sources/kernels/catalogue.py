"""Every kind of server that is asked, one line each."""

from __future__ import annotations

from bus.sources.kernels import code_server, gpu, jupyter, kubeflow, pod_cpu, rstudio, traffic
from bus.sources.kernels.contract import Kind

PROBES: tuple[Kind, ...] = (
    jupyter.kind,
    code_server.kind,
    rstudio.kind,
    kubeflow.kind,
    traffic.kind,
    gpu.kind,
    pod_cpu.kind,
)
