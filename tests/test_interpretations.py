"""Sticks and horizons of other programs as strokes, exemplars and truth; damaged files give an error of one line."""

import json

import numpy as np
import pandas as pd
import pytest

import outcrop as oc
from outcrop import datasets
from outcrop.geometry.horizons import horizon_table, read_horizon, write_horizon
from outcrop.geometry.sticks import read_sticks, write_sticks
from outcrop.job import faults
from outcrop.job.interpretations import import_exemplars, import_strokes, score_interpretation
from outcrop.job.sections import marked_sections

LINES = [103, 104, 105]
STICKS = ["sticks.csv", "sticks.dat", "sticks.charisma", "sticks.pol"]
TOPS = ["top.csv", "top.poi"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a survey with files of its sticks and of the top of its chaotic band in every format."""
    folder = tmp_path_factory.mktemp("files")
    datasets.write_synthetic(folder / "v.sgy", (10, 200, 200), seed=0)
    volume = oc.open_volume(folder / "v.sgy")
    sticks = oc.fault_sticks(volume, lines=LINES)
    top = oc.surface(oc.open_volume(folder / "v.truth.sgy"), "chaotic")
    for name in STICKS:
        write_sticks(sticks, folder / name, volume)
    for name in TOPS:
        write_horizon(folder / name, horizon_table(top, volume))
    return folder, volume, sticks, top


@pytest.fixture
def job(files, tmp_path):
    """Yield a job on the survey with patches of 48."""
    with oc.Job(tmp_path / "v.outcrop", volume=files[1]) as one:
        one.choose_index(size=[48, 48])
        yield one


@pytest.mark.parametrize("name", STICKS)
def test_sticks_become_accepted_sticks(job, files, name):
    """All sticks of every format are imported at their positions; one undo removes them."""
    folder, _, sticks, _ = files
    assert import_strokes(job, folder / name, "fault") == sticks["stick"].nunique()
    kept, names = faults.accepted_sticks(job), ["inline", "crossline", "time"]
    np.testing.assert_allclose(kept[names], sticks[names], atol=0.01)
    job.undo()
    assert not job.plan.state.strokes


@pytest.mark.parametrize("name", TOPS)
def test_a_horizon_becomes_strokes(job, files, name):
    """Every line is painted along the horizon."""
    folder, _, _, top = files
    assert import_strokes(job, folder / name, "top") == len(top["inline"])
    codes = marked_sections(job, job.plan)[0][0, 4]
    rows = np.searchsorted(job.axes[2], top.sel(inline=104).values)
    inside = np.isfinite(top.sel(inline=104).values)
    columns = np.searchsorted(job.axes[1], top["crossline"].values)
    assert (codes[columns[inside], rows[inside]] == job.classes["top"]).all()
    job.undo()
    assert not job.plan.state.strokes


@pytest.mark.parametrize("name", [*STICKS, *TOPS])
def test_files_become_exemplars(job, files, name):
    """Five places of the file where a patch fits become exemplars in one act."""
    folder, _, sticks, top = files
    places = import_exemplars(job, folder / name, "chosen")
    assert [list(one.place) for one in job.plan.state.exemplars] == places and len(places) == 5
    for inline, crossline, time in places:
        if name in TOPS:
            assert abs(top.sel(inline=inline, crossline=crossline).item() - time) <= 2.0  # half a sample
        else:
            near = sticks[(sticks["inline"] == inline) & ((sticks["crossline"] - crossline).abs() < 12)]
            assert near["time"].min() <= time <= near["time"].max()
    job.undo()
    assert not job.plan.state.exemplars


def test_sticks_and_horizons_are_truth(outcrop, files, tmp_path):
    """`evaluate --truth` scores a job against sticks and horizons; imported sticks have the full score."""
    folder, volume, *_ = files
    path = tmp_path / "v.outcrop"
    with oc.Job(path, volume=volume) as job:
        job.index(48, step=24)
        job.add_exemplar("chaotic", (104, 420, 200))
        job.add_exemplar("other", (104, 340, 600))
        for line in LINES:
            job.paint("other", [(line, 300, 20), (line, 498, 20)], radius=8)
            job.paint("chaotic", [(line, 300, 240), (line, 498, 240)], radius=30)
        job.label(lines=LINES)
    code, _, error = outcrop("decisions", path, "--import", folder / "sticks.dat", "--class", "fault")
    assert code == 0, error
    code, _, words = outcrop("evaluate", path, "--truth", folder / "sticks.csv")
    assert code == 0 and "class fault; sections 3" in words, words
    code, answer, _ = outcrop("evaluate", path, "--truth", folder / "sticks.pol", "--json")
    assert code == 0 and json.loads(answer)["F1"] > 0.99
    with oc.Job(path) as job:
        assert score_interpretation(job, folder / "sticks.charisma")["recall"] > 0.99
        misfit = score_interpretation(job, folder / "top.poi", "chaotic")
        assert misfit["traces"] > 300 and misfit["median_absolute"] < 100
        with pytest.raises(ValueError, match="--class"):
            score_interpretation(job, folder / "top.poi")
        with pytest.raises(ValueError, match="no points on labelled inlines"):
            score_interpretation(job, folder / "top.poi", "chaotic", lines=[100])
    code, _, error = outcrop("decisions", path, "--import", folder / "sticks.dat")
    assert code == 2 and "--class" in error and len(error.strip().splitlines()) == 1


WORDS = [
    b"nan",
    b"inf",
    b"-1e308",
    b"1e400",
    b"",
    b",",
    b"999",
    b"\x00",
    b"INLINE-",
    b"x",
    b'"',
    b"1_0",
    b"\xff\xfe",
    b"#",
]


def damaged(raw, rng):
    """Return a text file with random damage: cut, changed bytes or words, removed, repeated or joined lines."""
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(6)
        if kind == 0:
            raw = raw[: rng.integers(len(raw) + 1)]
        elif kind == 1:
            raw = bytearray(raw)
            for at in rng.integers(len(raw), size=rng.integers(1, 20)) if raw else ():
                raw[at] = rng.integers(256)
            raw = bytes(raw)
        elif kind == 2:
            words = raw.split(b" ") if b"," not in raw[:80] else raw.split(b",")
            for at in rng.integers(len(words), size=rng.integers(1, 6)):
                words[at] = WORDS[rng.integers(len(WORDS))]
            raw = (b" " if b"," not in raw[:80] else b",").join(words)
        else:
            lines = raw.split(b"\n")
            first, count = rng.integers(len(lines)), rng.integers(1, 4)
            chosen = lines[first : first + count]
            lines[first : first + count] = [] if kind == 3 else chosen * 2 if kind == 4 else [b" ".join(chosen)]
            raw = b"\n".join(lines)
    return raw


@pytest.mark.parametrize("name", [*STICKS, *TOPS])
@pytest.mark.filterwarnings("error")
def test_damaged_files_give_a_table_or_one_line(files, tmp_path, name):
    """Each of 100 damaged files is read with finite points, or refused in one line with its path."""
    folder, volume, *_ = files
    raw = b"\n".join((folder / name).read_bytes().split(b"\n")[:60])
    refused = []
    for seed in range(100):
        path = tmp_path / name
        path.write_bytes(damaged(raw, np.random.default_rng(seed)))
        read = read_horizon if name in TOPS else read_sticks
        try:
            table = read(path, volume)
        except ValueError as error:
            refused.append(str(error))
        else:
            assert len(table) and np.isfinite(table[list(volume.dims)].to_numpy(float)).all()
    assert 5 < len(refused) < 100
    assert all("\n" not in text and str(path) in text and len(text) < 600 for text in refused)


def test_damaged_sticks_are_never_half_imported(job, files, tmp_path):
    """A refused file leaves no stroke; an accepted file is one act."""
    raw, refused = (files[0] / "sticks.csv").read_bytes(), []
    for seed in range(60):
        (tmp_path / "d.csv").write_bytes(damaged(raw, np.random.default_rng(1000 + seed)))
        try:
            import_strokes(job, tmp_path / "d.csv", "fault")
        except ValueError as error:
            refused.append(str(error))
        else:
            job.undo()
        assert not job.plan.state.strokes
    assert refused and not any("\n" in text for text in refused)


def test_tables_of_sticks_and_horizons_are_distinguished(files):
    """Both are CSV files: only tables of sticks have the column `stick`."""
    folder, *_ = files
    assert "stick" in pd.read_csv(folder / "sticks.csv") and "stick" not in pd.read_csv(folder / "top.csv")
    with pytest.raises(ValueError, match="no column stick"):
        read_sticks(folder / "top.csv", files[1])
