"""Prints the CRDs as YAML: ``python -m bus.kube.crds > deploy/manifests/crds/bursar.io.yaml``."""

import sys

from bus.kube.crds.manifests import manifest

sys.stdout.write(manifest())
