"""Every stage can be killed before any file that it writes, and continues to the result of an uninterrupted run."""

import os
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from matplotlib.figure import Figure

from outcrop import Job, cli, datasets
from outcrop.job import decisions, table_file
from outcrop.storage import stages
from outcrop.storage.stages import append_line
from outcrop.storage.workspace import remove

pytest.importorskip("resource", reason="limits on a process are POSIX's")
import resource

from mutations import context

STAGES = {
    "index": ["index", "../ein Volumen ø.sgy", "-o", "job.outcrop", "--size", "32", "--step", "7", "--memory", "1GB"],
    "retrieve": ["retrieve", "job.outcrop", "--exemplar", "fault=104,350,200", "--exemplar", "other=105,330,100"],
    "label": ["label", "job.outcrop", "--mapping", "paper", "--step", "16"],
    "evaluate": ["evaluate", "job.outcrop", "--truth", "../ein Volumen ø.truth.sgy"],
    "export": ["export", "job.outcrop", "labels.sgy"],
    "export to Zarr": ["export", "job.outcrop", "labels.zarr"],
    "export patches": ["export", "job.outcrop", "patches"],
}
STAGES["retrieve"] += ["--count", "20"]


def command(folder, words, die_at, most_bytes, count):
    """Run a command in this process; kill the process before its nth write, or limit the size of files."""
    os.chdir(folder)
    sys.stdout = sys.stderr = open("said.txt", "w", encoding="utf-8")  # noqa: SIM115
    if most_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    Figure.savefig = lambda _, path, **options: Path(path).write_bytes(b"picture")  # drawing a figure takes a second
    rename, append = os.replace, append_line

    def killed(function):
        def call(*arguments, **options):
            count.value += 1
            if count.value == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    os.replace = killed(rename)
    for module in (stages, decisions, table_file):
        module.append_line = killed(append)
    sys.argv = ["outcrop", *words]
    cli.main()


def run(folder, words, *, die_at=None, most_bytes=None):
    """Run a command in another process; return exit code, number of writes, and output."""
    count = context.Value("i", 0)
    process = context.Process(target=command, args=(folder, words, die_at, most_bytes, count))
    process.start()
    process.join(100)
    return process.exitcode, count.value, (folder / "said.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    """Return a folder with a synthetic volume and an uninterrupted job, and the number of writes of each stage."""
    folder = tmp_path_factory.mktemp("survives")
    datasets.write_synthetic(folder / "ein Volumen ø.sgy", (8, 90, 96), seed=3)
    (folder / "whole").mkdir()
    counts = {}
    for stage, words in STAGES.items():
        code, counts[stage], output = run(folder / "whole", words)
        assert code == 0, output
    return folder, counts


def contents(folder):
    """Return the arrays and bytes of all results below a folder, by name."""
    found = {}
    for store in sorted(folder.rglob("*.zarr")):
        for name, array in zarr.open_group(store, mode="r").arrays():
            found[f"{store.relative_to(folder)}/{name}"] = array[...].tobytes()
    for path in sorted(folder.rglob("*")):
        kept = path.suffix in (".csv", ".sgy", ".npy", ".toml") or path.parent.name in ("images", "masks", "confidence")
        if kept and path.is_file() and path.name != "job.toml":
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def test_killed_stages_continue_to_the_same_result(survey):
    """Each stage is killed before a random write; `status` names the next command, and the results are equal."""
    folder, counts = survey
    job_folder = folder / "killed"
    job_folder.mkdir()
    rng = np.random.default_rng(0)
    for stage, words in STAGES.items():
        code, _, output = run(job_folder, words, die_at=int(rng.integers(1, counts[stage] + 1)))
        assert code == -signal.SIGKILL, output
        if (job_folder / "job.outcrop" / "job.toml").exists():
            follows = Job(job_folder / "job.outcrop").status()["next"].split()[1]
            # labels need no index and no retrieved patches
            assert follows in (
                "label",
                *{"index": ["index", "retrieve"], "retrieve": ["retrieve"]}.get(stage, ["export"]),
            )
        code, _, output = run(job_folder, words)
        assert code == 0, (stage, output)
    whole, killed = contents(folder / "whole"), contents(job_folder)
    assert whole.keys() == killed.keys()
    assert [name for name in whole if whole[name] != killed[name]] == []


@pytest.mark.parametrize(
    ("stage", "most_bytes", "made"),
    [
        ("index", 20_000, "job.outcrop"),
        ("retrieve", 1500, "job.outcrop/stages/retrieved"),
        ("label", 1500, "job.outcrop/stages/votes"),
        ("export", 99_000, "labels.sgy"),
    ],
)
def test_a_full_disk_stops_with_one_line_and_a_usable_job(survey, stage, most_bytes, made):
    """If a file cannot grow, the command fails with the reason and no partial file; with space it succeeds."""
    folder, _ = survey
    job_folder = folder / f"full {stage}"
    shutil.copytree(folder / "whole", job_folder)
    remove(job_folder / made)
    code, _, output = run(job_folder, STAGES[stage], most_bytes=most_bytes)
    assert code == 2, output
    assert output.splitlines()[-1].startswith("Error: The file exceeds the size limit"), output
    assert "Traceback" not in output
    assert not list(job_folder.rglob("*.part"))
    assert run(job_folder, STAGES[stage])[0] == 0
    whole, full = contents(folder / "whole"), contents(job_folder)
    redone = [name for name in whole if "features" in name] if stage == "index" else whole
    assert [name for name in redone if whole[name] != full.get(name)] == []


def test_a_change_adds_only_results_that_depend_on_it(survey):
    """Another seed adds a mapper and votes, another count a table, another step an index; repetition adds nothing."""
    folder, _ = survey
    job = Job(folder / "whole" / "job.outcrop")

    def stages_now():
        return {kind: len(job.stages.keys(kind)) for kind in ("index", "retrieved", "mapper", "votes")}

    expected = stages_now()
    for stage, words, adds in [
        ("index", [], ()),
        ("retrieve", [], ()),
        ("label", [], ()),
        ("label", ["--seed", "1"], ("mapper", "votes")),
        ("label", [], ()),
        ("retrieve", ["--count", "15"], ("retrieved",)),
        ("label", [], ("mapper", "votes")),
        ("retrieve", ["--count", "20"], ()),
        ("label", ["--min-confidence", "0.5"], ()),
        ("index", ["--step", "9"], ("index",)),
        ("index", [], ()),
    ]:
        code, _, output = run(folder / "whole", [*STAGES[stage], *words])
        assert code == 0, output
        expected = {kind: n + (kind in adds) for kind, n in expected.items()}
        assert stages_now() == expected, (stage, words)
    os.utime(folder / "ein Volumen ø.sgy")
    code, _, output = run(folder / "whole", STAGES["label"])
    assert code == 0 and stages_now() == expected, output
    assert job.status()["lines"] == {"total": 8, "labelled": 8, "stale": 0, "confirmed": 0}
