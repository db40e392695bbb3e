"""The loop that keeps the journals true to the observed cluster."""
