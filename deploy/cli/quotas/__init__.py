"""``bursar quota`` and ``bursar get quotas``: limits of quotas, their holders, and checks of new workloads."""
