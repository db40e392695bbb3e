"""Training jobs: the pods of a job, their replacement, and the job's status.

``passes`` is one pass over a job, a pure function; ``state`` is what is known, ``decide`` the decisions that follow.
"""

NAME = "jobs"
