"""A short run of the machine of `stateful.py`; `benchmarks/stateful.py` does 20,000 steps."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

pytest.importorskip("panel")

from stateful import JobMachine

SETTINGS = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck), "database": None}


def test_nothing_decided_is_lost_and_nothing_stale_passes_for_fresh():
    """Shell, page and notebook on one job, with kills, full disks, failing reads, moved files and damaged stages."""
    run_state_machine_as_test(JobMachine, settings=settings(max_examples=6, stateful_step_count=25, **SETTINGS))
