"""Training jobs: which pods a job needs, when a pod is replaced, and what its status says.

``passes`` is one pass over a job, a pure function; ``state`` is what is known, ``decide`` the decisions that follow.
"""

NAME = "jobs"
