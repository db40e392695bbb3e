"""What shall be done: decisions over projections, each an event with its reason. Empty until the first of them lands
(quotas and admission); the room is here so that the import contracts hold from the first commit.
"""
