"""Culling: stop notebooks that nobody uses, and never one that works. Everything here is pure.

``fusion`` is the rule by default, over evidence of every kind; ``policy`` says whose limits are which. Beside them,
exactly as they are, the rules of the cullers people come from: ``kubeflow`` (notebook controller 1.8 and the Open Data
Hub fork), ``workspaces`` (Kubeflow Notebooks 2.0) and ``hub`` (jupyterhub-idle-culler). They keep their quirks, strict
comparisons included, so that a cluster can change over without a surprise; new rules compare with ``>=``.

Source: docs/culling.md; docs/reliability.md.
"""
