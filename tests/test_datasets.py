"""Published data have correct positions, and synthetic volumes obey the laws of lines, faults and domes."""

import functools
import hashlib
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import segyio
from PIL import Image
from scipy import io, signal

from outcrop import datasets
from outcrop.datasets.earth import draw_earth
from outcrop.datasets.places import _patch_means
from outcrop.datasets.published import F3_SHA256
from outcrop.datasets.section import make_line
from outcrop.volumes import class_table, segy_write

SHAPES = [((120, 200, 256), 0), ((120, 200, 256), 7), ((60, 160, 200), 1), ((60, 160, 200), 2), ((90, 230, 300), 3)]


@pytest.fixture
def data():
    """Return the folder of the real data; skip the test without it."""
    if not os.environ.get("OUTCROP_DATA"):
        pytest.skip("OUTCROP_DATA names no folder of real data")
    return Path(os.environ["OUTCROP_DATA"])


@functools.cache
def volume_of(shape, seed):
    """Return samples and truth of a synthetic volume that several tests use."""
    volume, truth = datasets.synthetic(shape, seed=seed)
    return volume.values, truth.values


# --- F3 sections


def test_f3_sections_have_the_survey_axes(data):
    """Four inlines, crosslines from 300, times from sample 20 on, amplitudes in [0, 1]."""
    sections, labels = datasets.f3_sections(data)
    assert sections.dims == ("inline", "crossline", "time") and sections.shape == (4, 951, 442)
    assert sections.inline.values.tolist() == [160, 310, 330, 380]
    assert sections.crossline.values[[0, -1]].tolist() == [300, 1250]
    assert sections.time.values[[0, -1]].tolist() == [84, 1848]
    assert sections.dtype == np.float32 and sections.attrs["scaled"] and (sections.min(), sections.max()) == (0, 1)
    assert labels.dtype == np.uint8 and set(np.unique(labels)) == {0, 1, 2, 3, 4}


def test_f3_labels_align_with_the_sections_by_label(data):
    """Expert labels start at 500 ms and cover every later sample of the labelled lines."""
    sections, labels = datasets.f3_sections(data / "f3_sections")
    assert {310, 330} <= set(labels.inline.values.tolist()) <= set(sections.inline.values.tolist())
    assert sections.sel(inline=labels.inline).shape == labels.shape
    assert not labels.sel(time=slice(None, 499)).any() and labels.sel(time=slice(500, None)).all()


def test_f3_salt_labels_follow_strong_amplitudes(data):
    """Amplitudes at the boundary of the expert's salt are stronger than average: labels are not shifted."""
    sections, labels = datasets.f3_sections(data)
    strength = np.abs(sections.sel(inline=310) - 0.5)
    salt = (labels.sel(inline=310) == 4).astype(int)
    top = (salt.diff("time") == 1).reindex(time=sections.time, fill_value=False)
    at_top = {shift: float(strength.where(top.shift(time=shift, fill_value=False)).mean()) for shift in (-12, 0, 12)}
    assert at_top[0] > 1.3 * at_top[-12] and at_top[0] > 1.3 * at_top[12]


def test_f3_pictures_are_read_by_position(tmp_path):
    """Pixel (row, column) of a picture is sample 20 + row and crossline 300 + column; labels end at the last row."""
    picture = np.arange(10 * 6, dtype=np.uint8).reshape(10, 6)
    for name in datasets.F3_PICTURES.values():
        Image.fromarray(picture).convert("RGB").save(tmp_path / name)
    io.savemat(tmp_path / "GT281.mat", {"GT281": picture[4:] % 4 + 1})
    sections, labels = datasets.f3_sections(tmp_path)
    assert sections.sel(inline=160, crossline=302, time=4 * (20 + 7 + 1)) * 255 == pytest.approx(picture[7, 2])
    assert labels.inline.values.tolist() == [380]
    np.testing.assert_array_equal(labels[0, :, 4:].T, picture[4:] % 4 + 1)
    assert not labels[0, :, :4].any()


def test_f3_without_labels_still_opens(tmp_path):
    """Without any label file there is no labelled inline, and no error."""
    for name in datasets.F3_PICTURES.values():
        Image.new("RGB", (6, 10)).save(tmp_path / name)
    _, labels = datasets.f3_sections(tmp_path)
    assert labels.shape == (0, 6, 10)


def test_f3_files_have_the_recorded_digests(data):
    """Every available file has the SHA-256 against which a download is checked."""
    files = [path for path in (data / "f3_sections").iterdir() if path.name in F3_SHA256]
    assert len(files) >= 6
    for path in files:
        assert hashlib.sha256(path.read_bytes()).hexdigest() == F3_SHA256[path.name]


def test_f3_offline_gives_a_remedy(monkeypatch, tmp_path):
    """Without a folder and without a network the error is one line with the remedy."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("OUTCROP_DATA", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # the discard port never answers
    with pytest.raises(OSError, match=r"61\.bmp .* cannot be downloaded .* OUTCROP_DATA\.$"):
        datasets.f3_sections()


def test_f3_folder_without_pictures_is_refused(tmp_path):
    """The error for a folder without pictures names the missing files."""
    with pytest.raises(FileNotFoundError, match=r"lacks 61\.bmp, 211\.bmp"):
        datasets.f3_sections(tmp_path)


# --- SEG 2017 patches


def test_seg2017_patches_have_correct_positions(data):
    """The patches on the four inlines equal the pictures at their stated position within the pictures' quantisation."""
    patches = datasets.seg2017_patches(data)
    sections, _ = datasets.f3_sections(data)
    on_lines = np.flatnonzero(np.isin(patches.inline, sections.inline))
    assert len(on_lines) == 15
    for k in on_lines:
        patch = patches.isel(patch=int(k))
        row, column = int(patch.sample) - 20, int(patch.crossline) - 300
        section = sections.sel(inline=int(patch.inline)).values.T[row : row + 99, column : column + 99]
        assert np.abs(section - patch.image.values).max() < 0.5 / 255 + 1e-6


def test_seg2017_patches_are_500_of_each_class(data):
    """2000 patches of 99 x 99 in [0, 1], 500 per class, labels within the table."""
    patches = datasets.seg2017_patches(data)
    assert patches.image.shape == patches.published.shape == (2000, 99, 99)
    assert patches.image.dtype == np.float32 and (patches.image.min(), patches.image.max()) == (0, 1)
    names, counts = np.unique(patches.weak, return_counts=True)
    assert sorted(names) == sorted(patches.attrs["classes"]) and set(counts) == {500}
    assert set(np.unique(patches.published)) == {1, 2, 3, 4}


def test_seg2017_layout_equals_the_compact_file(data):
    """Patches from the layout of the repository equal those of the compact file with the same numbers."""
    compact, layout = datasets.seg2017_patches(data), datasets.seg2017_patches(data / "seg2017")
    same = compact.sel(patch=layout.patch)
    assert layout.sizes["patch"] == 100 and "inline" not in layout.coords
    np.testing.assert_allclose(layout.image, same.image, atol=3.2e-5)  # half a step of the compact file's 16 bits
    np.testing.assert_array_equal(layout.published, same.published)
    np.testing.assert_array_equal(layout.weak, same.weak)


def test_seg2017_class_follows_the_number(tmp_path):
    """Numbers 1-500 are chaotic, then other, fault and salt dome; any subset of files is read in numeric order."""
    numbers = [1, 500, 501, 1000, 1001, 1500, 1501, 2000]
    for folder in ("imgs", "lbls"):
        (tmp_path / "results" / folder).mkdir(parents=True)
    for n in numbers:
        io.savemat(tmp_path / f"results/imgs/img_{n}.mat", {"img": np.full((3, 3), n / 2000)})
        io.savemat(tmp_path / f"results/lbls/lbls_img_{n}.mat", {"classifiedImage": np.ones((3, 3), np.uint8)})
    patches = datasets.seg2017_patches(tmp_path)
    assert patches.patch.values.tolist() == numbers
    assert patches.weak.values.tolist() == ["chaotic"] * 2 + ["other"] * 2 + ["fault"] * 2 + ["salt dome"] * 2
    np.testing.assert_allclose(patches.image[:, 0, 0], np.array(numbers) / 2000, rtol=1e-6)


def test_seg2017_without_patches_is_refused(tmp_path, monkeypatch):
    """The error for a folder without patches, or without a folder, names the expected files."""
    with pytest.raises(FileNotFoundError, match=r"neither seg2017_patches\.npz nor results/imgs"):
        datasets.seg2017_patches(tmp_path)
    monkeypatch.delenv("OUTCROP_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="set the environment variable OUTCROP_DATA"):
        datasets.seg2017_patches()


# --- LANDMASS


def landmass_folder(root, sizes):
    """Make a folder in the layout of LANDMASS with two images of each class."""
    for name, size in sizes.items():
        (root / name).mkdir()
        for k in range(2):
            io.savemat(
                root / name / f"{name}_{k}.mat", {"img": np.linspace(-0.5, 0.5 + k / 2, np.prod(size)).reshape(size)}
            )
    return root


def test_landmass_has_the_published_range(data):
    """Real LANDMASS-1 patches have four classes, 99 x 99 pixels and amplitudes in [-1, 1]."""
    patches = datasets.landmass(data / "landmass1")
    assert patches.image.shape == (79, 99, 99) and patches.image.dtype == np.float32
    assert (patches.image.min(), patches.image.max()) == (-1, 1) and not patches.image.attrs["scaled"]
    names, counts = np.unique(patches["class"], return_counts=True)
    assert dict(zip(names, counts, strict=True)) == {"chaotic": 20, "fault": 20, "horizon": 19, "saltdome": 20}


@pytest.mark.parametrize("size", [(99, 99), (150, 300)])
def test_landmass_scalings(tmp_path, size):
    """Scaling `range` is (x + 1) / 2; `image` maps every image exactly to [0, 1]."""
    folder = landmass_folder(tmp_path, {"fault": size, "horizon": size})
    raw = datasets.landmass(folder).image
    common, per_image = (
        datasets.landmass(folder, scaling="range").image,
        datasets.landmass(folder, scaling="image").image,
    )
    np.testing.assert_allclose(common, (raw + 1) / 2, rtol=1e-6)
    assert (
        raw.shape == (4, *size)
        and (per_image.min(("row", "column")) == 0).all()
        and (per_image.max(("row", "column")) == 1).all()
    )
    assert common.attrs["scaled"] and per_image.attrs["scaled"]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"fault": (99, 99), "horizon": (150, 300)}, "mixes images of sizes"),
        ({"fault": (99, 99)}, "of 1 classes"),
        ({}, "of 0 classes"),
    ],
)
def test_landmass_refuses_mixed_or_missing_images(tmp_path, sizes, message):
    """Mixed sizes, one class and no class give a clear error."""
    with pytest.raises(ValueError, match=message):
        datasets.landmass(landmass_folder(tmp_path, sizes))


def test_landmass_names_a_damaged_file(tmp_path):
    """The error names a file that is no MATLAB file or lacks the variable."""
    folder = landmass_folder(tmp_path, {"fault": (9, 9), "horizon": (9, 9)})
    (folder / "fault" / "fault_0.mat").write_bytes(b"no matrix")
    with pytest.raises(ValueError, match=r"fault_0\.mat has no readable array 'img'"):
        datasets.landmass(folder)
    with pytest.raises(ValueError, match="scaling is 'own'"):
        datasets.landmass(folder, scaling="own")


# --- Synthetic


def test_synthetic_depends_on_its_seed():
    """The same seed gives the same volume and truth, another seed gives others."""
    (a, a_truth), (b, b_truth), (c, c_truth) = (datasets.synthetic((4, 70, 90), seed=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(a_truth, b_truth)
    assert (a != c).mean() > 0.99 and (a_truth != c_truth).any()


def test_a_single_line_equals_the_line_of_the_volume():
    """Lines computed one by one in any order equal those of the whole volume bit for bit."""
    shape, rows = (23, 70, 90), [22, 3, 11]
    volume, truth = datasets.synthetic(shape, seed=2)
    for row, (section, labels) in zip(rows, datasets.synthetic_lines(shape, seed=2, rows=rows), strict=True):
        np.testing.assert_array_equal(section, volume[row])
        np.testing.assert_array_equal(labels, truth[row])


def test_streamed_volume_equals_the_volume_in_memory(tmp_path):
    """The SEG-Y files hold the same samples, axes and classes as the volume in memory."""
    shape, done = (5, 60, 80), []
    truth_path = datasets.write_synthetic(tmp_path / "a.sgy", shape, seed=4, progress=lambda what, *at: done.append(at))
    volume, truth = datasets.synthetic(shape, seed=4)
    assert truth_path == tmp_path / "a.truth.sgy" and done == [(k + 1, 5) for k in range(5)]
    for path, whole in ((tmp_path / "a.sgy", volume), (truth_path, truth)):
        with segyio.open(path) as file:
            np.testing.assert_array_equal(segyio.cube(file), whole)
            np.testing.assert_array_equal(file.ilines, whole.inline)
            np.testing.assert_array_equal(file.xlines, whole.crossline)
            np.testing.assert_array_equal(file.samples, whole.time)
    assert class_table.read_class_table(truth_path) == truth.attrs["classes"]


def test_memory_does_not_grow_with_the_number_of_lines():
    """Ten times as many lines need no more memory while they are streamed."""
    peaks = []
    for n_inline in (8, 80):
        tracemalloc.start()
        for _ in datasets.synthetic_lines((n_inline, 100, 128)):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 40, 3), (2, 3, 700), (3, 1, 50)])
def test_any_size_is_finite(shape):
    """Even the smallest volume has finite amplitudes and valid labels."""
    volume, truth = datasets.synthetic(shape)
    assert volume.shape == truth.shape == shape and np.isfinite(volume).all() and truth.isin([1, 2, 3, 4]).all()


@pytest.mark.parametrize("shape", [(0, 4, 4), (4, 4)])
def test_impossible_shapes_are_refused(shape):
    """A shape that is not three positive numbers is refused."""
    with pytest.raises(ValueError, match="give the number of inlines, crosslines and samples"):
        datasets.synthetic(shape)


@pytest.mark.parametrize(("shape", "seed"), SHAPES)
def test_every_class_has_a_fair_share(shape, seed):
    """Every class has a reasonable share of the volume, and amplitudes resemble those of a survey."""
    volume, truth = volume_of(shape, seed)
    shares = np.bincount(truth.ravel(), minlength=5)[1:] / truth.size
    assert shares.min() > 0.05 and shares.max() < 0.7 and shares[datasets.OTHER - 1] > 0.2
    assert volume.dtype == np.float32 and 1500 < volume.std() < 2700 and abs(volume.mean()) < 0.05 * volume.std()


@pytest.mark.parametrize(("shape", "seed"), SHAPES)
def test_every_class_dominates_dozens_of_patches(shape, seed):
    """On a grid of step 33, each class fills at least half of 50 patches of 99 x 99 (48 x 48 in small surveys)."""
    _, truth = volume_of(shape, seed)
    size = 99 if shape == (120, 200, 256) else 48
    for code in (1, 2, 3, 4):
        shares = np.stack([_patch_means(labels == code, (size, size))[::33, ::33] for labels in truth])
        assert (shares >= 0.5).sum() >= 50


def test_larger_surveys_have_more_structures_not_larger_ones():
    """The numbers of domes and faults grow with the area, and their sizes stay the same."""
    small, large = (draw_earth(shape, 0) for shape in ((120, 200, 256), (1200, 2000, 768)))
    assert len(small.domes) == 1 and len(small.faults) >= 4 and len(small.bands) == 1
    assert len(large.domes) > 20 and len(large.faults) > 200 and len(large.bands) == 3
    assert all(0.75 < dome.radius / small.domes[0].radius < 1.3 for dome in large.domes)


def test_amplitude_alone_does_not_reveal_the_class():
    """The RMS amplitude of every class is within a factor of two of that of the volume."""
    for shape, seed in SHAPES:
        volume, truth = volume_of(shape, seed)
        for code in (1, 2, 3, 4):
            assert 0.5 < volume[truth == code].std() / volume.std() < 2


def test_chaotic_bands_and_salt_are_less_continuous_than_layers():
    """Traces at a distance of six are less similar in chaotic bands and salt than in layers."""
    volume, truth = volume_of((120, 200, 256), 0)
    left, right = volume[:, :-6], volume[:, 6:]
    alike = {}
    for code in (1, 2, 4):
        inside = (truth[:, :-6] == code) & (truth[:, 6:] == code)
        alike[code] = np.corrcoef(left[inside], right[inside])[0, 1]
    assert (
        alike[datasets.OTHER] > alike[datasets.CHAOTIC] + 0.15
        and alike[datasets.OTHER] > alike[datasets.SALT_DOME] + 0.15
    )


def test_structures_are_coherent_from_line_to_line():
    """Neighbouring lines have nearly equal samples and truth, as in a real survey."""
    volume, truth = volume_of((120, 200, 256), 0)
    assert np.corrcoef(volume[1:].ravel(), volume[:-1].ravel())[0, 1] > 0.75
    assert (truth[1:] == truth[:-1]).mean() > 0.97


def lag(before, after):
    """Return the samples by which `after` lies below `before`, at the peak of their cross-correlation."""
    return int(np.argmax(signal.correlate(after, before))) - (len(before) - 1)


def quiet_line(earth, row):
    """Return a line of a synthetic survey without its random texture."""
    n_crossline, n_sample = earth.shape[1:]
    flat = np.zeros((2, n_crossline, n_sample + 1), np.float32)
    return make_line(earth, row, lambda number: flat)


@pytest.mark.parametrize("seed", range(4))
def test_a_normal_fault_drops_its_hanging_wall_by_its_throw(seed):
    """Layers on the side to which a fault leans lie deeper by most of the throw (drag takes a part of it)."""
    full = draw_earth((120, 200, 256), seed)
    fault = full.faults[1]._replace(line=60, trace=100, sample=128, strike=0)
    earth = full._replace(faults=[fault], domes=[], bands=[])
    (faulted, truth), (whole, _) = (quiet_line(e, 60) for e in (earth, earth._replace(faults=[])))
    window, side = slice(128 - 25, 128 + 25), 6 * np.sign(fault.dip).astype(int)
    plane = 100 + round(fault.dip)
    hanging, foot = (lag(whole[t, window], faulted[t, window]) for t in (plane + side, plane - side))
    assert 0.5 * fault.throw < hanging - foot < fault.throw and hanging > 0 > foot
    assert 15 <= (truth[:, 128] == datasets.FAULT).sum() <= 25


@pytest.mark.parametrize("seed", range(4))
def test_a_dome_drags_up_the_layers_around_it(seed):
    """Layers outside the flank of a dome lie higher than without the dome."""
    full = draw_earth((120, 200, 256), seed)
    dome = full.domes[0]._replace(line=60, trace=100, top=100)
    earth = full._replace(domes=[dome], faults=[], bands=[])
    (pierced, truth), (whole, _) = (quiet_line(e, 60) for e in (earth, earth._replace(domes=[])))
    body = (truth == datasets.SALT_DOME).any(1)
    beside = np.flatnonzero(body)[-1] + 2
    assert body[100] and not body[beside]
    assert lag(whole[beside, 120:], pierced[beside, 120:]) < -3


# --- Exemplars


def test_exemplars_show_their_class():
    """Exemplars are centres of patches inside the volume with the requested share, on different inlines."""
    _, truth = datasets.synthetic((60, 160, 200), seed=1)
    found = datasets.exemplars(truth, (64, 48), count=3, min_share=0.7, seed=9)
    assert list(found) == truth.attrs["classes"] and found == datasets.exemplars(
        truth, (64, 48), count=3, min_share=0.7, seed=9
    )
    for code, places in enumerate(found.values(), 1):
        assert len(places) == len({inline for inline, _, _ in places}) == 3
        for inline, crossline, time in places:
            trace, sample = int(crossline) - 300 - 24, int(time / 4) - 32
            patch = truth.sel(inline=inline).values[trace : trace + 48, sample : sample + 64]
            assert patch.shape == (48, 64) and (patch == code).mean() >= 0.7


def test_exemplars_that_cannot_be_found_are_refused():
    """A patch larger than the section and a share that no patch has give clear errors."""
    _, truth = datasets.synthetic((2, 40, 60))
    with pytest.raises(ValueError, match=r"patch of 99 x 99, .* Lower size or count"):
        datasets.exemplars(truth, 99)


@pytest.mark.parametrize("seed", [0, 12, 2**62])
def test_the_seed_of_a_synthetic_file_is_found(tmp_path, seed):
    """Files of volume and truth hold their seed, even a long one; any other or missing file gives None."""
    truth_path = datasets.write_synthetic(tmp_path / "a.sgy", (2, 20, 30), seed=seed)
    assert datasets.synthetic_seed(tmp_path / "a.sgy") == datasets.synthetic_seed(truth_path) == seed
    with segy_write.create(tmp_path / "b.sgy", [1], [1, 2], [0, 4], text="A survey, seed 3") as write:
        write(0, np.ones((2, 2)))
    (tmp_path / "c.sgy").write_bytes(b"")
    assert [datasets.synthetic_seed(tmp_path / f"{name}.sgy") for name in "bcd"] == [None] * 3
