"""Commands that run until they are ended: `bursar up`, its parts as processes of their own, `bursar hub` and `bursar api`."""
