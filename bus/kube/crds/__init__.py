"""Bursar's own objects in the cluster: pydantic models are their public schema and the source of the CRDs.

``python -m bus.kube.crds`` prints the CRDs; a test keeps ``deploy/manifests/crds`` equal to it.
"""
