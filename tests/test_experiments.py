"""Experiments on measures and drawings: invalid input, laws on small data, quick runs on the real patches."""

import json
import os
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.io import savemat

from outcrop import experiments
from outcrop.evaluate.retrieval import retrieval_scores
from outcrop.experiments import curvelet, exemplars, measures, precision, roc, supervision, table1
from outcrop.measures.curvelet import Curvelet
from outcrop.measures.registry import PAPER

real_data = pytest.mark.skipif("OUTCROP_DATA" not in os.environ, reason="needs the real data, OUTCROP_DATA")
OURS = ("supervision", "workflow", "exemplars", "curvelet", "table1", "roc", "precision", "mds")


def one_line(raised):
    """Return the message of an error, and check that it is a single line of sentences."""
    text = str(raised.value)
    assert "\n" not in text and text.endswith(".") and len(text) < 250
    return text


def landmass_folder(folder, count):
    """Make a folder in the layout of LANDMASS-1; the images are stripes in four directions."""
    rng = np.random.default_rng(0)
    row, column = np.indices((99, 99))
    for i, name in enumerate(("chaotic", "fault", "horizon", "saltdome")):
        (folder / name).mkdir(parents=True)
        for n in range(count):
            phase = (row * np.cos(i) + column * np.sin(i)) / 5 + rng.uniform(0, 6)
            savemat(folder / name / f"{name}_{n:04}.mat", {"img": 0.6 * np.sin(phase) + rng.normal(0, 0.1, (99, 99))})
    return folder


def test_an_unknown_name_gives_an_error_with_the_known_names(tmp_path):
    """The error for a misspelt name lists the choices."""
    with pytest.raises(ValueError) as raised:
        experiments.run("tabel1", None, tmp_path)
    assert "tabel1" in str(raised.value) and "table1" in str(raised.value)


def test_a_missing_data_folder_is_named(tmp_path):
    """The error says which folder does not exist and how to name another."""
    with pytest.raises(ValueError) as raised:
        experiments.run("table1", tmp_path / "nowhere", tmp_path)
    assert "nowhere" in one_line(raised) and "--data" in str(raised.value)


@pytest.mark.parametrize("name", ["table1", "roc", "exemplars", "supervision", "workflow"])
def test_a_folder_with_another_layout_is_refused_in_one_line(name, tmp_path):
    """The error names the folder."""
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "notes.mat").touch()
    with pytest.raises(ValueError) as raised:
        experiments.run(name, tmp_path, tmp_path, quick=True)
    assert str(tmp_path) in one_line(raised)


def test_too_few_images_of_a_class_are_counted(tmp_path):
    """A LANDMASS folder with fewer than ten images of a class is refused with their number."""
    with pytest.raises(ValueError) as raised:
        experiments.run("table1", landmass_folder(tmp_path / "landmass", 3), tmp_path)
    assert "3 images of class 'chaotic'" in one_line(raised)


def test_options_that_an_experiment_does_not_have_are_refused(tmp_path):
    """An option of another experiment is refused; an option that is None is ignored."""
    with pytest.raises(ValueError, match="no option 'seeds'"):
        experiments.run("curvelet", None, tmp_path, seeds=3)
    experiments.run("curvelet", None, tmp_path, seeds=None)


def test_landmass_is_read_in_both_scalings(tmp_path):
    """LANDMASS, alone or with other data, is scaled as (x + 1) / 2 and by each image's range, with our class names."""
    landmass_folder(tmp_path / "landmass1", 11)
    for folder in (tmp_path, tmp_path / "landmass1"):
        sets, left_out = table1.patch_sets(folder, False)
        assert list(sets) == ["LANDMASS-1 as (x + 1) / 2", "LANDMASS-1 each image by its own range"] and not left_out
        for patches in sets.values():
            assert patches.images.shape == (44, 99, 99) and set(patches.classes) == {
                "chaotic",
                "fault",
                "horizon",
                "salt dome",
            }
        assert sets["LANDMASS-1 each image by its own range"].images.min((1, 2)).max() == 0


def test_distances_become_similarities_of_the_paper(tmp_path):
    """A distance is stored with a negative sign, and as one minus its ratio to the largest of its row."""
    folder = landmass_folder(tmp_path / "landmass1", 10)
    found = table1.matrix(folder, "LANDMASS-1 as (x + 1) / 2", "euclidean", True, None)
    assert (found.raw <= 0).all() and np.allclose(found.similarity.diagonal(), 1) and found.similarity.min() == 0
    order = [np.argsort(S, axis=1, kind="stable") for S in (found.raw, found.similarity)]
    assert (order[0][:, -5:] == order[1][:, -5:]).all()


def test_row_normalisation_keeps_every_ranking():
    """Rows are rescaled, not reordered: RA and MAP are unchanged, AUC changes."""
    rng = np.random.default_rng(0)
    S = rng.random((30, 30))
    np.fill_diagonal(S, 1)
    before, after = (retrieval_scores(x, np.arange(30) % 3) for x in (S, roc.row_normalised(S)))
    assert before["RA"] == after["RA"] and before["MAP"] == after["MAP"] and before["AUC"] != after["AUC"]


def test_precision_curves_end_at_the_retrieval_accuracy():
    """P@M at the number of other images of the class is the class's RA; both kinds of images of a class have curves."""
    rng = np.random.default_rng(0)
    classes, modes = np.repeat(["fault", "other"], 12), np.repeat(["fault", "fault", "other 1", "other 2"], 6)
    patches = table1.Patches(np.zeros((24, 1, 1)), classes, modes)
    found = precision.curves(rng.random((24, 24)), patches)
    assert list(found) == ["all", "fault", "other", "other 1", "other 2"]
    for accuracy, curve in found.values():
        assert curve[-1] == pytest.approx(accuracy)


def test_tiles_cover_the_frequency_plane():
    """Squares of all windows sum to one at every frequency, and the spectrum of a curvelet lies in its window."""
    frame = Curvelet(curvelet.SHAPE)
    windows = [
        [curvelet.spectrum(frame, scale, k) for k in range(len(of_scale))]
        for scale, of_scale in enumerate(frame.windows)
    ]
    assert np.allclose(sum(window**2 for of_scale in windows for window in of_scale), 1)
    found = np.abs(np.fft.fftshift(np.fft.fft2(curvelet.atom(frame, *curvelet.WEDGE))))
    inside = windows[curvelet.WEDGE[0]][curvelet.WEDGE[1]] > 0
    assert found[~inside].max() < 1e-9 * found.max()


def test_patches_are_cut_around_their_place():
    """The middle of a patch is the requested sample, with time down the rows."""
    axes = {"inline": [310], "crossline": np.arange(300, 340), "time": 4.0 * np.arange(30)}
    codes = xr.DataArray(np.arange(1200).reshape(1, 40, 30), axes)
    patch = exemplars.cut(codes, (310, 320, 60), 9)
    assert patch[4, 4] == codes.sel(inline=310, crossline=320, time=60).item() and patch[5, 4] == patch[4, 4] + 1


def test_a_box_is_the_smallest_that_contains_the_body():
    """The bounding box is the smallest upright rectangle around a mask."""
    mask = np.zeros((8, 9), bool)
    mask[2, 3], mask[5, 6] = True, True
    found = supervision.box(mask)
    assert found.sum() == 16 and found[2:6, 3:7].all()


def test_values_outside_their_tolerance_are_listed():
    """A value outside its tolerance and a missing row give a sentence each; rows of unavailable data are skipped."""
    rows = [{"data": "SEG 2017, all", "class": name, "RA": 0.5} for name in ("chaotic", "other", "fault")]
    found = experiments.deviations("precision", pd.DataFrame(rows))
    assert len(found) == 4 and sum("no single row" in text for text in found) == 1
    assert experiments.deviations("precision", pd.DataFrame(rows).assign(data="LANDMASS-2 as (x + 1) / 2")) == []


def test_the_page_shows_deviations(tmp_path):
    """The page has the figure, the table, the remark and every deviation."""
    experiments.run("curvelet", None, tmp_path)
    facts = json.loads((tmp_path / "curvelet.json").read_text())
    (tmp_path / "curvelet.json").write_text(json.dumps(facts | {"deviations": ["499 values"]}))
    experiments.write_page(tmp_path)
    text = (tmp_path / "index.html").read_text()
    assert "499 values" in text and "data:image/png" in text and "paper directions" in text


@pytest.fixture(scope="module")
def quick_runs(tmp_path_factory):
    """Return results of quick runs on the real data by name, their folder, and the number of matrices each computed."""
    folder, results, computed = tmp_path_factory.mktemp("quick"), {}, {}
    for name in OURS:
        before = table1.matrix.cache_info().misses
        results[name] = experiments.run(name, None, folder, quick=True)[0]
        computed[name] = table1.matrix.cache_info().misses - before
    return results, folder, computed


@real_data
def test_every_experiment_writes_its_files(quick_runs):
    """Each experiment writes figure (PNG, SVG), table and facts, and has a section on the page."""
    results, folder, _ = quick_runs
    text = (folder / "index.html").read_text()
    for name, result in results.items():
        assert all((folder / f"{name}.{suffix}").stat().st_size for suffix in ("png", "svg", "csv", "json"))
        assert f">{name}</h2>" in text and result.remark.endswith(".")


@real_data
def test_table1_scores_every_measure(quick_runs):
    """Every data set has seven measures, scores between 0 and 1, and costs relative to the paper's measure."""
    table = quick_runs[0]["table1"].table
    for _, rows in table.groupby("data"):
        assert set(PAPER) <= set(rows["measure"])
    scores = table[["RA", "MAP", "AUC raw", "AUC row", "RI"]].to_numpy()
    assert ((scores >= 0) & (scores <= 1)).all()
    best = table[table["measure"] == "curvelet-svd"]
    assert (best["cost"] == 1).all() and (best["paper RA"] == 0.911).all()
    assert set(table["data"].str.split(",| as| each").str[0]) == {"SEG 2017", "LANDMASS-1"}


@real_data
def test_similarities_are_computed_once(quick_runs):
    """ROC and precision use the matrices that the table has computed."""
    computed = quick_runs[2]
    assert computed["table1"] > 20 and computed["roc"] == computed["precision"] == 0


@real_data
def test_roc_curves_rise_from_corner_to_corner(quick_runs):
    """Every curve is monotone from (0, 0) to (1, 1)."""
    for ax in quick_runs[0]["roc"].figure.axes:
        for line in ax.lines:
            points = line.get_xydata()
            assert (np.diff(points, axis=0) >= 0).all() and (points[[0, -1]] == [[0, 0], [1, 1]]).all()


@real_data
@pytest.mark.parametrize("variant", ["euclidean", "curvelet-svd", "curvelet-svd, no finest scale"])
def test_measured_table_is_reproduced(variant):
    """RA and MAP equal those of independent prototypes on 100 patches per class, within .01."""
    text = (Path(experiments.__file__).parent / "expected.toml").read_text(encoding="utf-8")
    where = {"data": "SEG 2017, 100 a class", "measure": variant}
    entries = [entry for entry in tomllib.loads(text)["table1"] if entry["where"] == where]
    classes = table1.patch_sets(None, False)[0][where["data"]].classes
    found = retrieval_scores(table1.matrix(None, where["data"], variant, False, None).raw, classes)
    assert {entry["column"] for entry in entries} == {"RA", "MAP"}
    for entry in entries:
        assert found[entry["column"]] == pytest.approx(entry["value"], abs=entry["tolerance"])


def test_the_same_place_on_the_next_lines_is_not_counted():
    """Near-copies on neighbouring lines do not count as found, so they cannot make a measure look perfect."""
    classes = np.array(["a", "a", "b", "b"])
    places = np.array([[1, 0, 0], [2, 0, 0], [1, 33, 0], [90, 33, 0]])
    S = np.array([[1, 0.9, 0.1, 0.1], [0.9, 1, 0.1, 0.1], [0.1, 0.1, 1, 0.0], [0.1, 0.1, 0.0, 1]])
    # both patches of `a` have nothing to find, each patch of `b` finds both of `a` before the other `b`
    assert measures.accuracy_apart(S, classes, places) == 0.0
    places[:, 0] = [1, 50, 1, 90]
    assert measures.accuracy_apart(S, classes, places) == 0.5


def test_coarser_patches_keep_their_size():
    """Patches with half the sampling are padded by mirror images to their size."""
    patches = np.random.default_rng(0).random((2, 99, 99))
    assert measures.coarser(patches).shape == patches.shape
