"""Sources of facts: one file per kind with a pure translate(), and its list of loops."""
