"""Prints the page ``docs/views.md``."""

from projections.views import page

print(page(), end="")
