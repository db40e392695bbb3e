"""Commands that show past usage and current holdings."""
