"""A job: the decisions of interpreters, the results computed from them, and access to the job folder."""
