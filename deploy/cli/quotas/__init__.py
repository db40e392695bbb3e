"""``bursar quota`` and ``bursar get quotas``: what quotas allow, who holds it, and what would be admitted."""

from deploy.cli.quotas.commands import register

__all__ = ["register"]
