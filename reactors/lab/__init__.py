"""The lab: decisions of another policy on recorded history, with their savings and costs."""
