"""Commands of a person to Bursar: import, credit, order, recover, export."""
