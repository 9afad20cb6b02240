"""Neighbouring lines are determined by distances in metres, equally in all parts of the package and both directions."""

import numpy as np
import pytest

import outcrop as oc
from outcrop.evaluate.pixels import weak_label_scores
from outcrop.export.training_set import export_training_set
from outcrop.retrieval.assignment import Overlap
from outcrop.retrieval.weak import WeakLabels
from outcrop.volumes.neighbours import line_distances, line_spacing

AXES = {"inline": "crossline", "crossline": "inline"}


@pytest.fixture(scope="module")
def survey():
    """Return a synthetic volume and its truth; lines are 25 m apart."""
    return oc.datasets.synthetic((26, 40, 64), seed=3)


def test_patches_on_crosslines_are_scored(survey):
    """The same survey with its directions exchanged has the same scores."""
    volume, truth = survey
    found = []
    for along, (one, codes) in {
        "inline": (volume, truth),
        "crossline": tuple(x.rename(AXES).transpose("inline", "crossline", ...) for x in (volume, truth)),
    }.items():
        grid = oc.PatchGrid(one, size=32, step=16, along=along)
        order = grid.table.sort_values([along, AXES[along], "time"], kind="stable").index.to_numpy()
        names = np.array(truth.attrs["classes"])[np.arange(len(grid)) % len(truth.attrs["classes"])]
        weak = WeakLabels(order, names, *np.ones((2, len(grid))), grid.places(order), grid)
        found.append(weak_label_scores(weak, grid, codes.assign_attrs(truth.attrs)))
    assert found[0].keys() == found[1].keys() and any((shown == 1).any() for shown in found[0].values())
    for name, shown in found[0].items():
        np.testing.assert_array_equal(shown, found[1][name])


@pytest.mark.parametrize("stored", ["array", "SEG-Y", "Zarr", "labels"])
def test_a_selection_of_lines_keeps_their_distances(survey, tmp_path, stored):
    """Every fifth line of a survey lies 125 m from the next, also once the selection was written and read again."""
    volume = oc.open_volume(survey[0])
    if stored == "SEG-Y":
        oc.datasets.write_synthetic(tmp_path / "a.sgy", volume.shape, seed=3)
        volume = oc.open_volume(tmp_path / "a.sgy")
    chosen = volume[3::5]
    if stored == "Zarr":
        chosen.to_dataset(name="amplitude").to_zarr(tmp_path / "a.zarr", consolidated=False)
        chosen = oc.open_volume(tmp_path / "a.zarr")
    if stored == "labels":
        chosen = oc.Job(tmp_path / "a.outcrop", volume=volume).labels.isel(inline=slice(3, None, 5))
    assert line_distances(chosen, "inline").tolist() == [0, 125, 250, 375, 500]
    assert line_spacing(chosen) == (125.0, 25.0)
    assert line_distances(oc.open_volume(chosen), "inline")[1] == 125 if stored != "labels" else True


@pytest.mark.parametrize("spacing", [12.5, 25.0, 50.0])
def test_near_copies_are_determined_by_metres(survey, tmp_path, spacing):
    """Ranking and the gap of training sets count the lines within 250 m, for any numbers of the lines."""
    volume, truth = (x.assign_coords(inline=3 * np.arange(26)) for x in survey)
    volume = volume.assign_attrs(bin_size=(spacing, 25.0))
    grid = oc.PatchGrid(volume, size=32, step=32)
    over = Overlap(grid, np.arange(len(grid)))
    covered = np.unique(grid.starts[over(0) > 0, 1])
    assert covered.tolist() == list(range(min(26, int(250 / spacing) + 1)))
    export_training_set(truth, tmp_path / "set", volume=volume, grid=grid)
    made = (tmp_path / "set" / "classes.toml").read_text()
    assert f"gap = {int(250 / spacing)}" in made


def test_the_key_of_retrieved_patches_depends_on_the_distances_of_lines(survey, tmp_path):
    """Lines at other distances give another key; near 25 m the key is that of earlier versions."""
    keys = set()
    for spacing in (25.0, 50.0, 25.01):
        job = oc.Job(tmp_path / "a.outcrop", volume=survey[0].assign_attrs(bin_size=(spacing, 25.0)))
        job.choose_index(size=32)
        job.add_exemplar("fault", (102, 320, 120))
        keys.add(job.plan.keys["retrieved"])
        assert ("near" in job.plan.retrieved_stage.inputs) == (spacing == 50)
    assert len(keys) == 2


def test_geobodies_of_a_selection_of_lines_have_the_right_volume(survey):
    """On every second line, a sample has twice the volume."""
    whole = oc.open_volume(survey[1].assign_attrs(bin_size=(25.0, 12.5)))
    cells = []
    for labels in (whole, whole[::2]):
        found = oc.bodies(labels, "other", min_samples=1)
        cells.append((found["volume"] / found["samples"]).unique().item())
    assert cells == [25 * 12.5 * 4, 50 * 12.5 * 4]
