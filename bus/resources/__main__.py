"""Prints the CRDs as YAML: ``python -m bus.resources > deploy/manifests/crds/bursar.io.yaml``."""

import sys

from bus.resources.manifests import manifest

sys.stdout.write(manifest())
