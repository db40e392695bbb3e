"""Questions over HTTPS, read-only: the role ``bursar api``, and ``kubectl bursar``, which asks it."""
