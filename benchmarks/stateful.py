"""Random actions of people, programs and disks on jobs: `python benchmarks/stateful.py --steps 20000`.

The state machine is in tests/stateful.py. Prints the number of steps by kind, and the time per step.
"""

import argparse
import collections
import sys
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from stateful import JobMachine

LENGTH = 50  # steps of one job


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts, begin = collections.Counter(), time.perf_counter()

    class Counted(JobMachine):
        def check_invariants(self, *arguments, **more):
            counts["steps"] += 1
            if counts["steps"] % 500 == 0:
                print(f"{counts['steps']} steps, {time.perf_counter() - begin:.0f} s", flush=True)
            return super().check_invariants(*arguments, **more)

        def teardown(self):
            counts["jobs"] += 1
            super().teardown()

    while counts["steps"] < options.steps:
        chosen = settings(
            max_examples=-(-(options.steps - counts["steps"]) // LENGTH), stateful_step_count=LENGTH, deadline=None,
            database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate],
        )  # fmt: skip
        run_state_machine_as_test(seed(options.seed + counts["jobs"])(Counted), settings=chosen)
    took = time.perf_counter() - begin
    print(f"{counts['steps']} steps on {counts['jobs']} jobs in {took:.0f} s: nothing lost, nothing stale as fresh")


if __name__ == "__main__":
    main()
