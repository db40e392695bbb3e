"""Commands for past usage and current holdings."""
