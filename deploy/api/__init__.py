"""Questions over HTTPS, read-only: the role ``bursar api``, and its client ``kubectl bursar``."""
