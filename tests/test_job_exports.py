"""Exports of a job: their content, and requests that are refused."""

import numpy as np
import pytest
import xarray as xr

import outcrop as oc
from outcrop.job.exports import with_scores
from outcrop.job.votes import Labels


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Return a job on a synthetic volume with two labelled lines."""
    folder = tmp_path_factory.mktemp("job")
    oc.datasets.write_synthetic(folder / "v.sgy", (8, 90, 96), seed=3)
    job = oc.Job(folder / "v.outcrop", volume=folder / "v.sgy")
    job.choose_index(size=32, step=24)
    for name, place in (("fault", (104, 350, 200)), ("other", (105, 330, 100))):
        job.add_exemplar(name, place)
    job.label([103, 104])
    return job


def test_axes_of_an_array_are_named_in_a_job_too(tmp_path):
    """A third axis called twt is read as time; an axis with an unknown name is refused."""
    array = xr.DataArray(np.random.default_rng(0).normal(size=(3, 40, 50)), dims=("inline", "crossline", "twt"))
    assert oc.Job(tmp_path / "a.outcrop", volume=array).volume.dims == ("inline", "crossline", "time")
    with pytest.raises(ValueError, match="not recognised as inline, crossline and time or depth"):
        oc.Job(tmp_path / "b.outcrop", volume=array.rename(twt="band"))


@pytest.mark.parametrize("out", ["x.sgy", "x.zarr", "x"])
@pytest.mark.parametrize("what", ["foo", "score", "score:", "score:salt", "confidence:fault", "Label"])
def test_an_unknown_content_is_refused_for_every_kind_of_export(job, tmp_path, outcrop, out, what):
    """The error of one line names the value, and nothing is written."""
    code, _, err = outcrop("export", job.path, tmp_path / out, "--what", what)
    assert code == 2 and repr(what) in " ".join(err.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["x.sgy", "x.npy", "x.png"])
def test_a_folder_that_does_not_exist_is_named(job, tmp_path, out):
    """The error names the missing folder, not a temporary file in it."""
    with pytest.raises(ValueError, match=r"The folder .*missing does not exist; make it"):
        job.export(tmp_path / "missing" / out)


def test_lazy_labels_and_volumes_are_copied_deeply(job):
    """A deep copy of a lazy array has the same samples."""
    labels, volume = job.labels, job.volume
    np.testing.assert_array_equal(labels.copy(deep=True)["label"].values, labels["label"].values)
    np.testing.assert_array_equal(volume.copy(deep=True)[0].values, volume[0].values)


def test_scores_of_all_classes_go_into_zarr(job, tmp_path):
    """Scores are in the order of the codes, add up to at most 255 but for rounding, and agree with the labels."""
    job.export(tmp_path / "x.zarr", what="score:fault")
    stored = xr.open_zarr(tmp_path / "x.zarr")
    assert stored["score"].dims == ("class", "inline", "crossline", "time") and stored["score"].dtype == np.uint8
    lines = stored["score"].sel(inline=[103, 104]).values.astype(int)
    assert lines.any(axis=(1, 2, 3)).all()
    assert lines.sum(0).max() <= 255 + len(lines)
    winner = lines.argmax(0) + 1
    label = stored["label"].sel(inline=[103, 104]).values
    clear = np.sort(lines, axis=0)[-1] - np.sort(lines, axis=0)[-2] > 2
    sure = clear & (label > 0) & (label < 255)
    assert sure.mean() > 0.5
    np.testing.assert_array_equal(winner[sure], label[sure])


def test_scores_are_read_line_by_line(job, monkeypatch):
    """Adding scores reads nothing; reading the score on a line reads only that line."""
    read = []
    whole = Labels.score_block
    monkeypatch.setattr(Labels, "score_block", lambda view, name, key: read.append(key) or whole(view, name, key))
    labels = with_scores(job, job.labels)
    assert read == [] and not labels["score"].variable._in_memory
    section = labels["score"][0].sel(inline=103).values
    assert section.any() and len(read) == 1
    assert len(np.arange(8)[read[0][0]]) == 1
