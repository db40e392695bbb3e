"""Rebalancing: which running pods should move to another node, by plugins that propose and a dry run that checks each move.

A ``Deschedule`` plugin looks at one node, a ``Balance`` plugin at all nodes. Both read a frozen state and propose pods. The plan
refuses a pod that may not be evicted, that fits no other node, or that the scheduler would put back. It deducts each planned move
before the next proposal. Pure but for the plan's own state.

Source: kubernetes-sigs/descheduler; koordinator-sh/koordinator, pkg/descheduler; docs/rebalancing.md.
"""
