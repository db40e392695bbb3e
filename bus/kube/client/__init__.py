"""The adapter to a Kubernetes API server: the only import of the client library.

The library's models and its watch are not used: models drop unknown fields, and the watch loses deletes. Bursar
uses only its hard parts: kubeconfig files, credentials and their renewal, TLS. Lists come as pages of raw objects,
watches as raw lines, both through :class:`bus.kube.watch.contract.Cluster`; single objects are read and written as
decoded JSON.

Proxies of the environment are not asked unless told so: an API server is reached directly or as its
kubeconfig says.

Source: Kubernetes API concepts; docs/reliability.md;
tests/benchmarks/README.md, "Against a real API server".
"""

from bus.kube.client.access import Access, discover
from bus.kube.client.cluster import LONGEST_LINE, KubeCluster, connect

__all__ = ["LONGEST_LINE", "Access", "KubeCluster", "connect", "discover"]
