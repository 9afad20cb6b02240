"""Any content of a file gives a result or an error of one line: no crash, no traceback, no write elsewhere."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
import zarr

from outcrop import Job, TrainingSet, datasets, open_volume
from outcrop.storage.workspace import Workspace

pytest.importorskip("resource", reason="limits on a process are POSIX's")
from mutations import COMMANDS, command, context, fuzz_job, limits, look_at, mutate_segy

DATA = os.environ.get("OUTCROP_DATA")
MEMORY = 6 << 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Yield a folder with a synthetic volume and a job: indexed, retrieved, one line labelled."""
    folder = tmp_path_factory.mktemp("fuzz")
    datasets.write_synthetic(folder / "v.sgy", (8, 90, 96), seed=3)
    before = os.getcwd()
    os.chdir(folder)
    for number in (7, 1, 2):
        words = [word.replace("job.outcrop", "sound.outcrop") for word in COMMANDS[number]]
        assert command(words) == "answered", (folder / "output.txt").read_text()
    yield folder
    os.chdir(before)


def segy_cases(sources, seeds, folder, log_path):
    """Mutate SEG-Y files, open each, and log the outcomes."""
    limits(MEMORY)
    with open(log_path, "a") as log:
        for seed in seeds:
            kind, raw = mutate_segy(sources[seed % len(sources)], np.random.default_rng(seed))
            (folder / "m.sgy").write_bytes(raw)
            print(json.dumps([seed, kind, look_at(folder / "m.sgy")]), file=log, flush=True)


def job_cases(folder, seeds, log_path):
    """Mutate the job, run commands on each mutation, and log the outcomes."""
    limits(MEMORY)
    with open(log_path, "a") as log:
        for seed in seeds:
            for outcome in fuzz_job(folder, np.random.default_rng(seed)):
                print(json.dumps([seed, *outcome]), file=log, flush=True)


def in_a_process(function, *arguments):
    """Run a function in a process, which may crash, and return the cases that it logged."""
    process = context.Process(target=function, args=arguments)
    process.start()
    process.join(300)
    cases = [json.loads(line) for line in arguments[-1].read_text().splitlines()]
    assert process.exitcode == 0, f"the process ended after {cases[-1:]}"
    return cases


def unexpected(cases):
    """Return the cases that were neither answered nor refused."""
    return [case for case in cases if case[-1] not in ("answered", "refused")]


def test_mutated_segy(folder, tmp_path):
    """Real files with damage, or a synthetic file if no real file is available, are answered or refused."""
    files = sorted(Path(DATA, "segy").glob("f3*.sgy")) if DATA else [folder / "v.sgy"]
    cases = in_a_process(segy_cases, [path.read_bytes() for path in files], range(80), folder, tmp_path / "cases")
    assert len(cases) == 80
    assert unexpected(cases) == []
    assert {case[-1] for case in cases} == {"answered", "refused"}


def test_mutated_jobs(folder, tmp_path):
    """Commands on jobs with a cut, overwritten, replaced, linked or edited file are answered or refused."""
    cases = in_a_process(job_cases, folder, range(14), tmp_path / "cases")
    assert len(cases) == 42
    assert unexpected(cases) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("source", 7), ("options", []), ("shape", [1, 2]), ("shape", [10**12, 9, 9]), ("digest", 1), ("dims", ["x"])],
)
def test_invalid_values_in_job_toml_give_an_error_of_one_line(folder, key, value):
    """Values of another type or size are refused; `index` with the volume repairs the job, and keeps all decisions."""
    shutil.rmtree(folder / "job.outcrop", ignore_errors=True)
    shutil.copytree(folder / "sound.outcrop", folder / "job.outcrop")
    job = Workspace(folder / "sound.outcrop").read()
    job["volume"][key] = value
    (folder / "job.outcrop" / "job.toml").write_text(tomli_w.dumps(job))
    for words in (COMMANDS[0], COMMANDS[5], ["retrieve", "job.outcrop"]):
        assert command(words) == "refused", Path("output.txt").read_text()
    assert command(COMMANDS[7]) == "answered", Path("output.txt").read_text()
    decided, sound = (Job(folder / name).status()["decisions"] for name in ("job.outcrop", "sound.outcrop"))
    assert decided == sound


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("index", {"clip": "x"}), ("index", {"between": [0, 1]}), ("index", {"step": [1, 10**12]}),
        ("index", {"size": []}), ("index", {"sample": 10**12}), ("index", {"area": {"inline": [1, 2, 3]}}),
        ("index", {"gain": 5}), ("index", {"every": float("nan")}), ("index", {"colour": 1}), ("index", 7),
        ("count", [1]), ("count", {"fault": -1}), ("label", {"step": "x"}), ("limits", {"max_error": 7}), ("magic", 1),
    ],
)  # fmt: skip
def test_invalid_decisions_are_skipped_and_counted(folder, name, value):
    """An invalid line in the log has no effect, and `status` counts it as damaged."""
    shutil.rmtree(folder / "job.outcrop", ignore_errors=True)
    shutil.copytree(folder / "sound.outcrop", folder / "job.outcrop")
    entry = {"id": "z", "time": "2999-01-01T00:00:00+00:00", "who": "x", "what": "set", "name": name, "value": value}
    with open(next((folder / "job.outcrop" / "decisions").glob("*.jsonl")), "a") as handle:
        handle.write(json.dumps(entry) + "\n")
    before, after = (Job(folder / path).status() for path in ("sound.outcrop", "job.outcrop"))
    assert sum(after["damaged"].values()) == 1
    assert {key: before[key] for key in ("keys", "lines", "decisions")} == {
        key: after[key] for key in ("keys", "lines", "decisions")
    }


def test_rows_outside_the_volume_are_named(folder, tmp_path):
    """The error for a row of retrieved.csv outside the volume names its line."""
    table = pd.read_csv(folder / "sound.outcrop" / "retrieved.csv")
    whole = (folder / "sound.outcrop" / "retrieved.csv").read_text()
    for column, value in (("inline", 10**9), ("time", -5.0), ("crossline", np.nan)):
        table.assign(**{column: table[column].where(table.index != 3, value)}).to_csv("sound.outcrop/retrieved.csv")
        assert command(["label", "sound.outcrop", "--mapping", "paper"]) == "refused"
        assert "line 5" in Path("output.txt").read_text()
    (folder / "sound.outcrop" / "retrieved.csv").write_text(whole)


def test_zarr_with_missing_chunks_and_wrong_metadata(tmp_path):
    """A missing chunk has the fill value, and sizes beyond the memory are refused."""
    values = np.random.default_rng(0).normal(size=(4, 40, 40)).astype("f4")
    array = zarr.create_array(tmp_path / "v.zarr", data=values, chunks=(2, 20, 20), fill_value=np.nan)
    (tmp_path / "v.zarr" / "c" / "0" / "1" / "0").unlink()
    volume = open_volume(tmp_path / "v.zarr")
    assert np.isnan(volume.values[:2, 20:, :20]).all()
    assert np.isfinite(volume.values).sum() == array.size - 800
    meta = (tmp_path / "v.zarr" / "zarr.json").read_text()
    for old, new in ((40, 10**12), (20, 10**9), (4, -1)):
        (tmp_path / "v.zarr" / "zarr.json").write_text(
            meta.replace(f"{old},", f"{new},").replace(f"{old}\n", f"{new}\n")
        )
        with pytest.raises((ValueError, OSError)):
            open_volume(tmp_path / "v.zarr").values  # noqa: B018


def test_errors_for_damaged_stores_state_a_remedy_that_works(folder):
    """A lost or changed chunk of the index is noticed, and the stated remedy works."""
    for lost in (False, True):
        shutil.rmtree(folder / "job.outcrop", ignore_errors=True)
        shutil.copytree(folder / "sound.outcrop", folder / "job.outcrop")
        store = next((folder / "job.outcrop").rglob("features.zarr"))
        chunk = max((p for p in (store / "features" / "c").rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
        raw = chunk.read_bytes()
        chunk.unlink()
        if not lost:
            chunk.write_bytes(raw[:-9] + bytes([raw[-9] ^ 1]) + raw[-8:])
        words = ["retrieve", "job.outcrop", "--count", "11"]
        assert command(words) == "refused"
        assert "compute it again" in Path("output.txt").read_text()
        assert command(words) == "answered", Path("output.txt").read_text()


def test_paths_of_a_manifest_stay_in_its_folder(tmp_path):
    """Paths of a training set that leave its folder are refused."""
    pytest.importorskip("torch")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "classes.toml").write_text('[classes]\n1 = "fault"\n')
    row = {"file": "../x.png", "mask": "m.png", "weight": "", "similarity": 1, "confidence": 1, "split": "train"}
    pd.DataFrame([row]).to_csv(tmp_path / "set" / "manifest.csv")
    with pytest.raises(ValueError, match="outside its folder"):
        TrainingSet(tmp_path / "set")[0]
