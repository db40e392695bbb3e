"""What a person tells Bursar to do: import, credit, order, recover, export."""
