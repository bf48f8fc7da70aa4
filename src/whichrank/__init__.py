"""whichrank: which rank hung the training job, at which collective, and why."""

__version__ = "0.1.0"
