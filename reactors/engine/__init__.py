"""The base of every reactor: journals, and the only publisher."""
