"""Whatever is in a file, the answer is a result or one clear line: no crash, no traceback, nothing elsewhere."""

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
    """A synthetic volume with a job on it: indexed, retrieved, one line labelled."""
    folder = tmp_path_factory.mktemp("fuzz")
    datasets.write_synthetic(folder / "v.sgy", (8, 90, 96), seed=3)
    before = os.getcwd()
    os.chdir(folder)
    for number in (7, 1, 2):
        words = [word.replace("job.outcrop", "sound.outcrop") for word in COMMANDS[number]]
        assert command(words) == "answered", (folder / "said.txt").read_text()
    yield folder
    os.chdir(before)


def segy_cases(sources, seeds, folder, tell):
    """Mutate SEG-Y files and look at each."""
    limits(MEMORY)
    with open(tell, "a") as log:
        for seed in seeds:
            kind, raw = mutate_segy(sources[seed % len(sources)], np.random.default_rng(seed))
            (folder / "m.sgy").write_bytes(raw)
            print(json.dumps([seed, kind, look_at(folder / "m.sgy")]), file=log, flush=True)


def job_cases(folder, seeds, tell):
    """Mutate the job and run commands on each."""
    limits(MEMORY)
    with open(tell, "a") as log:
        for seed in seeds:
            for outcome in fuzz_job(folder, np.random.default_rng(seed)):
                print(json.dumps([seed, *outcome]), file=log, flush=True)


def in_a_process(function, *arguments):
    """What a function tells, from a process that may crash."""
    process = context.Process(target=function, args=arguments)
    process.start()
    process.join(300)
    told = [json.loads(line) for line in arguments[-1].read_text().splitlines()]
    assert process.exitcode == 0, f"died after {told[-1:]}"
    return told


def broken(told):
    """Outcomes outside the promise."""
    return [case for case in told if case[-1] not in ("answered", "refused")]


def test_mutated_segy(folder, tmp_path):
    """Real files where there are any, a synthetic one otherwise."""
    files = sorted(Path(DATA, "segy").glob("f3*.sgy")) if DATA else [folder / "v.sgy"]
    told = in_a_process(segy_cases, [path.read_bytes() for path in files], range(80), folder, tmp_path / "told")
    assert len(told) == 80
    assert broken(told) == []
    assert {case[-1] for case in told} == {"answered", "refused"}


def test_mutated_jobs(folder, tmp_path):
    """Each file of a job cut, overwritten, replaced, linked elsewhere or edited, and three commands on it."""
    told = in_a_process(job_cases, folder, range(14), tmp_path / "told")
    assert len(told) == 42
    assert broken(told) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("source", 7), ("options", []), ("shape", [1, 2]), ("shape", [10**12, 9, 9]), ("digest", 1), ("dims", ["x"])],
)
def test_nonsense_in_job_toml_is_one_line(folder, key, value):
    """Values of another kind or too large; giving the volume again mends it, and no decision is lost."""
    shutil.rmtree(folder / "job.outcrop", ignore_errors=True)
    shutil.copytree(folder / "sound.outcrop", folder / "job.outcrop")
    job = Workspace(folder / "sound.outcrop").read()
    job["volume"][key] = value
    (folder / "job.outcrop" / "job.toml").write_text(tomli_w.dumps(job))
    for words in (COMMANDS[0], COMMANDS[5], ["retrieve", "job.outcrop"]):
        assert command(words) == "refused", Path("said.txt").read_text()
    assert command(COMMANDS[7]) == "answered", Path("said.txt").read_text()
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
def test_nonsense_among_decisions_is_passed_over_and_counted(folder, name, value):
    """A line that no program wrote changes nothing, and `status` says that it is there."""
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
    """Line and place of a row of retrieved.csv that lies nowhere."""
    table = pd.read_csv(folder / "sound.outcrop" / "retrieved.csv")
    whole = (folder / "sound.outcrop" / "retrieved.csv").read_text()
    for column, value in (("inline", 10**9), ("time", -5.0), ("crossline", np.nan)):
        table.assign(**{column: table[column].where(table.index != 3, value)}).to_csv("sound.outcrop/retrieved.csv")
        assert command(["label", "sound.outcrop", "--mapping", "paper"]) == "refused"
        assert "line 5" in Path("said.txt").read_text()
    (folder / "sound.outcrop" / "retrieved.csv").write_text(whole)


def test_zarr_with_missing_chunks_and_lying_metadata(tmp_path):
    """A missing chunk is what Zarr says it is, the fill value; sizes that no memory holds are refused."""
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


def test_damaged_stores_say_what_to_do(folder):
    """A lost or changed chunk of the index is noticed, the remedy is named, and it helps."""
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
        assert "compute it again" in Path("said.txt").read_text()
        assert command(words) == "answered", Path("said.txt").read_text()


def test_a_manifest_cannot_lead_out_of_its_folder(tmp_path):
    """Paths in a training set that climb out are refused."""
    pytest.importorskip("torch")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "classes.toml").write_text('[classes]\n1 = "fault"\n')
    row = {"file": "../x.png", "mask": "m.png", "weight": "", "similarity": 1, "confidence": 1, "split": "train"}
    pd.DataFrame([row]).to_csv(tmp_path / "set" / "manifest.csv")
    with pytest.raises(ValueError, match="outside its folder"):
        TrainingSet(tmp_path / "set")[0]
