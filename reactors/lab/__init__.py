"""What another policy would have decided on recorded history, and what that would have saved or cost."""
