"""``bursar quota`` and ``bursar get quotas``: what quotas allow, who holds it, and what would be admitted."""
