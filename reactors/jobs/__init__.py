"""Training jobs: the pods of a job, their replacement, and the job's status.

``passes`` is one pass over a job, a pure function; ``state`` is the known state, ``decide`` makes the decisions from it.
"""

NAME = "jobs"
