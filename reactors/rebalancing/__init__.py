"""Rebalancing: moves of running pods to other nodes. Plugins propose them, and a dry run checks each.

A ``Deschedule`` plugin looks at one node, a ``Balance`` plugin at all nodes. Both read a frozen state and propose pods. The plan
refuses pods without permission to move, without another node, or put back by the scheduler. It deducts each planned move
before the next proposal. Pure but for the plan's own state.

Source: kubernetes-sigs/descheduler; koordinator-sh/koordinator, pkg/descheduler; docs/rebalancing.md.
"""
