"""Commands from a person to Bursar: import, credit, order, recover, export."""
