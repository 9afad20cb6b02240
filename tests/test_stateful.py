"""A short run of the state machine of `stateful.py`; `benchmarks/stateful.py` runs 20,000 steps."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

pytest.importorskip("panel")

from stateful import JobMachine

SETTINGS = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck), "database": None}


def test_no_decision_is_lost_and_no_stale_label_counts_as_fresh():
    """Command line, page and notebook use one job, with kills, full disks, failing reads and damaged stages."""
    run_state_machine_as_test(JobMachine, settings=settings(max_examples=6, stateful_step_count=25, **SETTINGS))
