"""``bursar lab`` and capsules: recorded history under another policy."""
