"""Run the commands of docs/start.md in an empty folder and a new environment, and print the duration.

    python tools/follow_start.py [--keep FOLDER]

One shell runs all ``bash`` blocks of the page in their order. The folder contains only this checkout, under the name
that the page uses.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "start.md"
END = "-- end of the block --"
LEAST_SCORE = 0.7  # mean IoU of the two labelled lines; .75 when the page was written


def main():
    """Run all blocks of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="work in this empty folder, and keep it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first hour ") as folder:
        work = options.keep or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        (work / "outcrop").symlink_to(ROOT)
        total = follow(blocks(PAGE.read_text(encoding="utf-8")), work)
        score = mean_iu(work)
    print(f"All blocks in {total / 60:.1f} minutes; mean IoU of the labels {score:.2f}")
    if score < LEAST_SCORE:
        sys.exit(f"The mean IoU is below {LEAST_SCORE}.")


def blocks(text):
    """Return the bash blocks of a page."""
    found = re.findall(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if not found:
        sys.exit(f"{PAGE} has no bash block.")
    return found


def follow(commands, work):
    """Run blocks in one shell, print the duration of each and return the total in seconds."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    shell = subprocess.Popen(
        ["bash", "-euo", "pipefail"], cwd=work, env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    begin = last = time.monotonic()
    for block in commands:
        shell.stdin.write(f"{block}\necho {END}\n")
        shell.stdin.flush()
        for line in shell.stdout:
            if line.strip() == END:
                break
            print("   ", line, end="")
        else:
            sys.exit(f"This block of {PAGE.name} failed:\n{block}")
        now = time.monotonic()
        print(f"{now - last:5.0f} s  {block.splitlines()[0]} ...", flush=True)
        last = now
    return last - begin


def mean_iu(work):
    """Score the labels against the true labels."""
    command = ["outcrop-env/bin/outcrop", "evaluate", "survey.outcrop", "--truth", "survey.truth.sgy", "--json"]
    return json.loads(subprocess.run(command, cwd=work, check=True, stdout=subprocess.PIPE).stdout)["MIU"]


if __name__ == "__main__":
    main()
