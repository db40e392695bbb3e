"""Long-running commands: `bursar up`, its parts as processes of their own, `bursar hub` and `bursar api`."""
