"""Commands that say who used how much, and who holds what."""
