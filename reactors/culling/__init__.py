"""Culling: stops unused notebooks, and never busy ones. Everything here is pure.

``fusion`` is the default rule, over evidence of every kind; ``policy`` decides the limits of each notebook. Beside them are
exact copies of other cullers' rules, for clusters with such a culler: ``kubeflow`` (notebook controller 1.8 and the Open Data
Hub fork), ``workspaces`` (Kubeflow Notebooks 2.0) and ``hub`` (jupyterhub-idle-culler). They keep their quirks, strict
comparisons included, so a cluster can change over without a surprise. New rules compare with ``>=``.

Source: docs/culling.md; docs/reliability.md.
"""
