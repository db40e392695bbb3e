"""Where facts come from: one file per kind with a pure translate(), and the loops that feed it."""
