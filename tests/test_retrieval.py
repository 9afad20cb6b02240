"""An index survives interruption, search is exact, and every patch goes to its most similar class."""

import numpy as np
import pytest
import reference
import torch
import xarray as xr
import zarr

from outcrop import CurveletSVD, PatchGrid, build_index, open_index, open_volume, retrieve
from outcrop.retrieval.assignment import assign
from outcrop.retrieval.counts import MOST, NEAREST, auto_count, knee
from outcrop.retrieval.exemplars import rows_near
from outcrop.retrieval.index import USED
from outcrop.retrieval.search import search
from outcrop.retrieval.weak import read_table
from outcrop.storage.stages import Stages


@pytest.fixture(scope="module")
def volume():
    """Return a volume of two textures: layers on the left, dipping layers on the right, one muted corner."""
    rng = np.random.default_rng(0)
    i, x, t = np.meshgrid(np.arange(8), np.arange(160), np.arange(100), indexing="ij")
    values = np.where(x < 80, np.sin(t / 2 + i / 9), np.sin((t + 1.5 * x) / 3 + i / 9)) + 0.2 * rng.normal(size=i.shape)
    values[0, :40, :50] = 0
    coords = {"inline": 100 + np.arange(8), "crossline": 300 + np.arange(160), "time": 4.0 * np.arange(1, 101)}
    return xr.DataArray((1000 * values).astype("f4"), coords=coords, dims=("inline", "crossline", "time"))


@pytest.fixture
def index(volume, tmp_path):
    """Return an index of the volume with 33 x 33 patches."""
    return build_index(volume, PatchGrid(volume, size=33, step=11), tmp_path / "job.outcrop")


@pytest.fixture
def paper(volume, tmp_path):
    """Return an index of the volume with the paper's measure."""
    grid = PatchGrid(volume, size=33, step=11)
    return build_index(volume, grid, tmp_path / "paper.outcrop", measure="curvelet-svd")


def test_index_holds_the_descriptor_of_every_patch(volume, paper):
    """Each row equals the descriptor of its patch; empty patches have their status and a zero row."""
    index = paper
    patches = index.grid.extract(volume, slice(None))
    expected = CurveletSVD().describe(patches)
    used = index.status == USED
    np.testing.assert_array_equal(index.features[:][used], expected[used])
    assert (~used).sum() > 0
    assert not index.features[:][~used].any()


def test_an_index_depends_on_its_measure(volume, paper, tmp_path):
    """Encoder and paper's measure give different keys; the index opens again, and its search equals the measure."""
    index = paper
    built = build_index(volume, index.grid, tmp_path / "paper.outcrop")
    assert built.key != index.key and open_index(tmp_path / "paper.outcrop", volume=volume).key == built.key
    used = built.status == USED
    expected = built.measure.describe(index.grid.extract(volume, slice(None))[used])
    np.testing.assert_array_equal(built.features[:][used], expected)
    weak = retrieve(built, {"flat": [(102, 330, 200)], "dipping": [(102, 430, 200)]}, 20)
    queries = built.measure.describe(built.grid.cut(volume, built.grid.start_at((102, 330, 200))))
    slow = built.measure.compare(built.features[:][weak.rows[:20]], queries)[:, 0]
    np.testing.assert_allclose(weak.similarity[:20], slow, atol=1e-5)
    with pytest.raises(ValueError, match="choose one of curvelet-svd, encoder"):
        build_index(volume, index.grid, tmp_path / "job.outcrop", measure="euclidean")


def test_similarity_is_the_mean_over_blocks():
    """The similarity of several blocks is the mean of the Bray-Curtis similarities of each."""
    rng = np.random.default_rng(0)
    features, queries = (rng.random((n, 12)).astype("f4") for n in (30, 5))
    parts = [search(features[:, span], queries[:, span]) for span in (slice(0, 4), slice(4, 12))]
    np.testing.assert_allclose(search(features, queries, np.array([0, 4, 12])), sum(parts) / 2, atol=1e-6)


def test_a_resumed_index_equals_an_uninterrupted_one(volume, tmp_path, monkeypatch):
    """Stopped after any block, the next run computes only the missing blocks; arrays are equal bit for bit."""
    monkeypatch.setattr("outcrop.retrieval.index.BLOCK", 64)
    grid = PatchGrid(volume, size=33, step=11)
    whole = build_index(volume, grid, tmp_path / "whole.outcrop")
    seen = []

    def stop(what, done, total):
        seen.append(done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(volume, grid, tmp_path / "b.outcrop", progress=stop)
    with pytest.raises(ValueError, match="not finished"):
        open_index(tmp_path / "b.outcrop", volume=volume)
    with open(next((tmp_path / "b.outcrop").rglob("features.done")), "a") as log:
        log.write("7")  # a line that a kill cut short
    again = []
    resumed = build_index(volume, grid, tmp_path / "b.outcrop", progress=lambda what, done, total: again.append(done))
    assert again[0] > seen[-1]
    np.testing.assert_array_equal(whole.features[:], resumed.features[:])
    np.testing.assert_array_equal(whole.status, resumed.status)


def test_every_index_is_stored_under_its_key(volume, tmp_path):
    """The same volume and parameters need no reading; another step or volume adds an index and keeps the first."""
    grid, path, calls = PatchGrid(volume, size=33, step=22), tmp_path / "j.outcrop", []
    first = build_index(volume, grid, path)
    build_index(volume, grid, path, progress=lambda what, done, total: calls.append(done))
    assert calls == []
    (path / "retrieved.csv").write_text("edited by hand")
    build_index(
        volume, PatchGrid(volume, size=33, step=30), path, progress=lambda what, done, total: calls.append(done)
    )
    assert calls and (path / "retrieved.csv").read_text() == "edited by hand"
    with pytest.raises(ValueError, match="changed since"):
        open_index(path, volume=volume * 2)
    calls.clear()
    again = build_index(volume, grid, path, progress=lambda what, done, total: calls.append(done))
    assert calls == [] and again.key == first.key
    assert (
        set(Stages(path).keys("index")) == {first.key, *Stages(path).keys("index")}
        and len(Stages(path).keys("index")) == 2
    )


def test_a_damaged_index_is_renamed_and_computed_again(volume, tmp_path):
    """With broken metadata, the folder is renamed, never removed, and the next run gives the same descriptors."""
    grid, path = PatchGrid(volume, size=33, step=22), tmp_path / "j.outcrop"
    whole = build_index(volume, grid, path).features[:]
    store = next(path.rglob("features.zarr"))
    (store / "zarr.json").write_text("{")
    again = build_index(volume, grid, path)
    np.testing.assert_array_equal(again.features[:], whole)
    assert (store.parent / "features.zarr.damaged-1").is_dir()


def test_a_lost_chunk_is_computed_again(volume, tmp_path):
    """A missing chunk of status or descriptors is computed again by the same command."""
    grid, path = PatchGrid(volume, size=33, step=22), tmp_path / "j.outcrop"
    whole = build_index(volume, grid, path)
    store = next(path.rglob("features.zarr"))
    next(p for p in (store / "status" / "c").rglob("*") if p.is_file()).unlink()
    again = build_index(volume, grid, path)
    np.testing.assert_array_equal(again.features[:], whole.features[:])
    np.testing.assert_array_equal(again.status, whole.status)


def test_a_failing_disk_removes_nothing(volume, tmp_path, monkeypatch):
    """A read error while the index is opened is reported to the user, and the index stays unchanged."""
    grid, path = PatchGrid(volume, size=33, step=22), tmp_path / "j.outcrop"
    build_index(volume, grid, path)
    before = sorted(p for p in path.rglob("*") if p.is_file())

    def fail(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("outcrop.retrieval.index.zarr.open_group", fail)
    with pytest.raises(OSError, match="Input/output"):
        build_index(volume, grid, path)
    assert sorted(p for p in path.rglob("*") if p.is_file()) == before


def test_a_computed_volume_is_another_volume(volume, tmp_path):
    """A filtered volume gets its own descriptors, although its attributes name the source of the raw volume."""
    grid, path = PatchGrid(volume, size=33, step=22), tmp_path / "j.outcrop"
    raw = build_index(volume, grid, path, measure="curvelet-svd")
    filtered = volume.copy(data=np.gradient(volume.values, axis=-1).astype("f4"))
    made = build_index(filtered, grid, path, measure="curvelet-svd")
    assert made.key != raw.key
    used = made.status == USED
    np.testing.assert_array_equal(made.features[:][used], CurveletSVD().describe(grid.extract(filtered, used)))


def test_open_index_gives_the_same_index(volume, index):
    """Grid, descriptors and status are read from the folder."""
    again = open_index(index.workspace.path, volume=volume)
    np.testing.assert_array_equal(again.grid.starts, index.grid.starts)
    np.testing.assert_array_equal(again.features[:], index.features[:])
    assert isinstance(again.features, zarr.Array)


def test_an_array_can_be_indexed_and_opened_again(volume, tmp_path):
    """A volume in memory is identified by a digest of its samples."""
    held = open_volume(volume.values)
    index = build_index(held, PatchGrid(held, size=33, step=33), tmp_path / "a.outcrop")
    again = open_index(tmp_path / "a.outcrop", volume=held)
    np.testing.assert_array_equal(again.features[:], index.features[:])
    with pytest.raises(ValueError, match="pass the volume"):
        open_index(tmp_path / "a.outcrop")


def test_refuses_a_job_file_with_nonsense(volume, tmp_path):
    """Nonsense in job.toml gives a one-line error, and indexing again repairs the file."""
    grid, path = PatchGrid(volume, size=33, step=33), tmp_path / "j.outcrop"
    made = build_index(volume, grid, path)
    text = (path / "job.toml").read_text()
    for broken in (text.replace("digest", "dijest"), text.replace("shape = [", "shape = [ 7, "), "format = 2"):
        (path / "job.toml").write_text(broken)
        with pytest.raises(ValueError, match=r"record of the volume cannot be read|no volume yet"):
            open_index(path)
        assert build_index(volume, grid, path).key == made.key


def test_search_is_exact():
    """The kernel equals the definition, and the torch path equals the kernel."""
    rng = np.random.default_rng(0)
    features = (rng.random((300, 500)) * (rng.random((300, 500)) < 0.2)).astype("f4")
    features[5] = 0
    queries = np.concatenate([features[[5, 7]], rng.random((2, 500)).astype("f4")])
    slow = [[reference.bray_curtis(a, b) for b in queries] for a in features]
    np.testing.assert_allclose(search(features, queries), slow, atol=2e-6)
    on_torch = CurveletSVD().compare(torch.from_numpy(features), torch.from_numpy(queries))
    np.testing.assert_allclose(on_torch.numpy(), slow, atol=2e-6)


def test_a_ranking_beyond_the_memory_is_refused(index, monkeypatch):
    """More patches than fit the memory budget of a ranking give a one-line error with a remedy."""
    monkeypatch.setattr(index, "memory", 49 * len(index) - 1)
    with pytest.raises(ValueError, match="allow more memory"):
        retrieve(index, {"flat": [np.eye(33)]}, 3)


def test_exemplar_finds_itself_first(index, paper):
    """A patch of the grid used as exemplar is retrieved at rank 1 with similarity 1, and its texture follows."""
    middle = index.grid.table.query("inline == 103 and crossline < 350").iloc[0][["inline", "crossline", "time"]]
    for found in (index, paper):
        weak = retrieve(found, {"flat": [tuple(middle)]}, 60, ranking="similarity")
        assert weak.similarity[0] == pytest.approx(1, abs=1e-6)
        assert weak.table.iloc[0][["inline", "crossline", "time"]].tolist() == middle.tolist()
        assert (np.diff(weak.similarity) <= 0).all()
        assert (weak.positions.crossline < 380).mean() > 0.95
    same(retrieve(paper, {"flat": [tuple(middle)]}, 60), weak)  # the paper's ranking with the paper's measure
    assert (retrieve(index, {"flat": [tuple(middle)]}, 60).positions.crossline < 380).mean() > 0.95
    with pytest.raises(ValueError, match="choose one of graph, similarity"):
        retrieve(index, PLACES, 5, ranking="distance")


def test_two_classes_share_no_patch_and_are_pure(index):
    """Each patch goes to one class, both textures are found, and the CSV file agrees."""
    weak = retrieve(index, {"flat": [(103, 330, 200)], "dipping": [(103, 420, 200)]}, {"flat": 150, "dipping": 140})
    assert len(np.unique(weak.rows)) == len(weak) == 290
    crossline = weak.positions.crossline.to_numpy()
    assert (crossline[weak.classes == "flat"] < 396).mean() > 0.9
    assert (crossline[weak.classes == "dipping"] > 364).mean() > 0.9
    weak.save(index.workspace / "table.csv")
    lines = (index.workspace / "table.csv").read_text().splitlines()
    assert lines[0].startswith("class,rank,similarity,inline,crossline,time")
    assert len(lines) == 291


def test_picture_exemplars(index, volume):
    """A picture of a patch finds the same as its position; wrong sizes and ranges are refused; it is resampled."""
    place = (103, 330, 200)
    patch = index.grid.cut(volume, index.grid.start_at(place))[0]
    by_place, by_picture = (retrieve(index, {"a": [e]}, 20) for e in (place, patch))
    np.testing.assert_array_equal(by_place.rows, by_picture.rows)
    with pytest.raises(ValueError, match="30 x 33"):
        retrieve(index, {"a": [patch[:30]]}, 20)
    with pytest.raises(ValueError, match="scale it"):
        retrieve(index, {"a": [patch * 9]}, 20)
    fine = xr.DataArray(np.kron(patch, np.ones((2, 2))), dims=("time", "crossline"))
    fine.attrs = {"sample_interval": 2.0, "trace_spacing": 12.5}
    with pytest.raises(ValueError, match="bin size"):
        retrieve(index, {"a": [fine]}, 20)
    index.volume = volume.assign_attrs(bin_size=(25.0, 25.0))
    resampled = retrieve(index, {"a": [fine]}, 20)
    assert len(np.intersect1d(resampled.rows, by_place.rows)) > 10


def test_quota_per_exemplar(index):
    """With a quota, each exemplar contributes equally; without, one exemplar may contribute all patches."""
    places = [(103, 330, 200), (103, 420, 200)]
    weak = retrieve(index, {"any": places}, 41, per_exemplar=True)
    assert np.bincount(weak.exemplar).tolist() == [21, 20]


PLACES = {"flat": [(103, 330, 200)], "dipping": [(103, 420, 200)]}


def same(a, b):
    """Assert that two weak labels are equal."""
    assert (a.accepted, a.rejected) == (b.accepted, b.rejected)
    for name in ("rows", "classes", "similarity", "exemplar", "weights", "judge"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def judged(weak, yes=(), no=()):
    """Return options of `retrieve` that accept and reject rows of weak labels, each for its class."""
    return {what: weak.places(np.isin(weak.rows, rows)) for what, rows in (("accepted", yes), ("rejected", no))}


def test_accepted_patches_stay_and_rejected_ones_do_not_return_for_their_class(index):
    """Several rounds of random verdicts are respected."""
    for options in ({}, {"per_exemplar": True}, {"ranking": "similarity"}):
        rng = np.random.default_rng(0)
        weak, verdicts = retrieve(index, PLACES, 12, **options), {}
        for _ in range(4):
            pairs = list(zip(weak.rows.tolist(), weak.classes.tolist(), strict=True))
            for click, i in enumerate(rng.choice(len(weak), 6, replace=False)):
                verdicts[pairs[i]] = click < 3
            given = {"accepted": {}, "rejected": {}}
            for (row, name), accept in verdicts.items():
                place = index.grid.centres([row]).astype(object).to_numpy()[0]
                given["accepted" if accept else "rejected"].setdefault(name, []).append(place)
            weak = retrieve(index, PLACES, 12, **options, **given)
            found = set(zip(weak.rows.tolist(), weak.classes.tolist(), strict=True))
            assert {pair for pair, accept in verdicts.items() if accept} <= found
            assert not found & {pair for pair, accept in verdicts.items() if not accept}
            assert len(weak) == len(found) == len(np.unique(weak.rows))


@pytest.mark.parametrize("ranking", ["graph", "similarity"])
def test_a_rejected_patch_may_show_another_class(index, ranking):
    """A patch rejected for one class can be retrieved for another, and an accepted patch stays there."""
    weak = retrieve(index, PLACES, 30, ranking=ranking)
    row = int(weak.rows[weak.classes == "flat"][0])
    place = weak.places([0])["flat"]
    found = retrieve(index, PLACES, 30, ranking=ranking, rejected={"dipping": place})
    assert row in found.rows[found.classes == "flat"]
    found = retrieve(index, PLACES, 30, ranking=ranking, accepted={"dipping": place}, rejected={"flat": place})
    assert found.classes[found.rows == row].tolist() == ["dipping"]
    assert found.weights[found.rows == row] == 1


def test_order_of_verdicts_does_not_matter(index):
    """The same verdicts in any order give the same patches."""
    weak = retrieve(index, PLACES, 30)
    given = judged(weak, weak.rows[[1, 31, 40]], weak.rows[[5, 29, 45]])
    turned = {what: {name: some[::-1] for name, some in places.items()} for what, places in given.items()}
    same(retrieve(index, PLACES, 30, **given), retrieve(index, PLACES, 30, **turned))


def test_patches_are_ranked_by_their_share_of_the_evidence(index, monkeypatch):
    """As by a dense solution: accepted patches come first, then descending shares, which are the weights."""
    monkeypatch.setattr("outcrop.retrieval.ranking.OVERLAP_PENALTY", 0)
    monkeypatch.setattr("outcrop.retrieval.graph.MORE", 100)  # every pair is compared by the measure
    weak = retrieve(index, PLACES, 30)
    yes, no = weak.rows[[7, 12]], weak.rows[[20, 25]]
    refined = retrieve(index, PLACES, 30, **judged(weak, yes, no))
    used = np.flatnonzero(index.status == USED)
    features = index.features[:][used]
    exemplars = {
        name: index.measure.describe(index.grid.cut(index.volume, index.grid.start_at(places[0])))
        for name, places in PLACES.items()
    }
    shares = reference.shares(features, list(exemplars.values()), np.isin(used, yes), np.isin(used, no))
    share = dict(zip(used.tolist(), shares, strict=True))
    assert refined.rows[:2].tolist() == sorted(yes, key=lambda row: -share[row])
    flat = refined.rows[refined.classes == "flat"][2:]
    np.testing.assert_allclose(refined.weights[2 : len(flat) + 2], [share[row] for row in flat], atol=1e-3)
    assert (np.diff([share[row] for row in flat]) < 1e-4).all()
    left = [share[row] for row in used.tolist() if row not in {*refined.rows, *no}]
    assert share[flat[-1]] > max(left) - 1e-4


def test_feedback_makes_retrieval_purer(index):
    """An exemplar across the boundary finds both textures; verdicts on ten patches leave mostly one."""
    exemplar = {"flat": [(103, 372, 200)]}
    weak = retrieve(index, exemplar, 120)

    def flat(weak):
        return weak.positions.crossline.to_numpy() <= 364

    before, yes, no = flat(weak).mean(), [], []
    for _ in range(2):
        picks = weak.picks(5)
        right = flat(weak)[picks]
        yes += weak.places(picks[right]).get("flat", [])
        no += weak.places(picks[~right]).get("flat", [])
        weak = retrieve(index, exemplar, 120, accepted={"flat": yes}, rejected={"flat": no})
    assert before < 0.6
    assert flat(weak).mean() > before + 0.2


def test_assign_gives_each_row_to_the_most_similar_request():
    """No row is assigned twice, no request could get a better free row, and ties are resolved by row."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        s = rng.integers(0, 6, (12, 3)) / 6
        chosen = assign(s, [3, 4, 2])
        rows = np.concatenate(chosen)
        assert len(np.unique(rows)) == len(rows) == 9
        for want, assigned in enumerate(chosen):
            worst = s[assigned, want].min()
            better = [r for r in range(12) if s[r, want] > worst and r not in assigned]
            assert all(any(r in o and s[r, w] >= s[r, want] for w, o in enumerate(chosen) if w != want) for r in better)


def test_auto_takes_the_knee_of_the_nearest_ninth(index):
    """The count of each class is the knee of its curve, whose length depends on the size of the index."""
    usable = int((index.status == USED).sum())
    whole = {name: retrieve(index, {name: PLACES[name]}, usable, ranking="similarity").similarity for name in PLACES}
    weak = retrieve(index, PLACES, "auto")
    for name, curve in whole.items():
        assert weak.suggested[name] == auto_count(curve, usable) == min(knee(curve[: usable // NEAREST]), MOST)
        assert (weak.classes == name).sum() == weak.suggested[name]
    assert len(retrieve(index, PLACES, {"flat": 7})) == 7 + weak.suggested["dipping"]


def test_verdicts_apply_to_their_position_on_any_grid(volume, index, tmp_path):
    """A rejection excludes the patch of another index that nearly covers it; between patches it acts as a query."""
    weak = retrieve(index, PLACES, 30)
    place = (*weak.positions.iloc[4][["inline", "crossline", "time"]], "inline")
    without = retrieve(index, PLACES, 30, rejected={weak.classes[4]: [place]})
    assert weak.rows[4] not in without.rows and without.rejected[weak.classes[4]] == [weak.rows[4]]
    first = retrieve(index, PLACES, 30, accepted={weak.classes[4]: [place]})
    assert first.rows[0] == weak.rows[4] and first.weights[0] == 1
    other = build_index(volume, PatchGrid(volume, size=33, step=9), tmp_path / "o.outcrop")
    start = other.grid.start_at(place[:3])
    near = rows_near(other.grid, start[None])[0]
    again = retrieve(other, PLACES, 30, rejected={weak.classes[4]: [place]})
    assert near < 0 or near not in again.rows
    coarse = PatchGrid(volume, size=33, step=33)
    off = np.array([[0, 2, 17, 16]])
    slow = max(
        (33 - abs(a - 17)) * (33 - abs(b - 16)) / 33**2 if max(abs(a - 17), abs(b - 16)) < 33 else 0
        for d, i, a, b in coarse.starts.tolist() if (d, i) == (0, 2)
    )  # fmt: skip
    assert (rows_near(coarse, off)[0] >= 0) == (slow >= 0.75)


def test_weights_separate_right_patches_from_wrong_ones(index):
    """Patches of the other texture have smaller weights; weights are in (0, 1], 1 if accepted, and are saved."""
    weak = retrieve(index, PLACES, {"flat": 430, "dipping": 150})
    right = (weak.positions.crossline.to_numpy() <= 364) == (weak.classes == "flat")
    assert (~right).sum() > 20
    assert weak.weights[right].mean() > weak.weights[~right].mean() + 0.2
    assert ((weak.weights > 0) & (weak.weights <= 1)).all()
    assert weak.wrong["flat"] == pytest.approx(1 - weak.weights[weak.classes == "flat"].mean())
    last = int(weak.rows[weak.classes == "flat"][-1])
    refined = retrieve(index, PLACES, {"flat": 430, "dipping": 150}, **judged(weak, [last]))
    assert refined.weights[refined.rows == last] == 1
    path = index.workspace / "table.csv"
    weak.save(path)
    np.testing.assert_allclose(read_table(path, index).weights, weak.weights, atol=1e-4)
    text = path.read_text().splitlines()
    path.write_text("\n".join([text[0], text[1].rpartition(",")[0] + ",1.5"]))
    with pytest.raises(ValueError, match=r"line 2: weight 1\.5"):
        read_table(path, index)


def test_arrays_on_disk_are_those_in_memory(index, tmp_path):
    """All data except the grid are read back identically with their types; a damaged file is refused."""
    weak = retrieve(index, PLACES, {"flat": 40, "dipping": 9})
    weak = retrieve(index, PLACES, {"flat": 40, "dipping": 9}, **judged(weak, weak.rows[[3, 44]], weak.rows[[5]]))
    weak.save_arrays(tmp_path / "weak.npz")
    read = type(weak).load_arrays(tmp_path / "weak.npz", weak.grid)
    for name in ("rows", "classes", "similarity", "exemplar", "starts", "weights", "judge"):
        one, other = getattr(read, name), getattr(weak, name)
        assert one.dtype == other.dtype and one.tobytes() == np.ascontiguousarray(other).tobytes(), name
    assert list(read.curves) == list(weak.curves)
    assert all(read.curves[name].tobytes() == curve.tobytes() for name, curve in weak.curves.items())
    assert (read.suggested, read.accepted, read.rejected) == (weak.suggested, weak.accepted, weak.rejected)
    assert read.grid is weak.grid and read.table.equals(weak.table) and read.wrong == weak.wrong
    (tmp_path / "weak.npz").write_bytes((tmp_path / "weak.npz").read_bytes()[:-40])
    with pytest.raises(ValueError, match="is damaged"):
        type(weak).load_arrays(tmp_path / "weak.npz", weak.grid)


def test_a_single_class_is_weighted_against_the_survey(index):
    """Patches of the texture have large weights, the least similar patches of the survey have small ones."""
    weak = retrieve(index, {"flat": PLACES["flat"]}, int((index.status == USED).sum()))
    assert weak.weights[:30].min() > 0.9 > weak.weights[-30:].max()


def test_knee_finds_the_bend():
    """The knee of a curve with one steep step is at the step."""
    assert knee(np.concatenate([np.linspace(1, 0.95, 100), np.linspace(0.5, 0.45, 100)])) in (100, 101)


def test_refuses_bad_requests(index):
    """Empty classes, too many patches and positions outside the volume are refused."""
    for exemplars, count, message in [
        ({}, 5, "at least one exemplar"),
        ({"a": []}, 5, "at least one exemplar"),
        ({"a": [(103, 330, 200)]}, 10**9, "choose 1 to"),
        ({"a": [(103, 330, 200)]}, {"a": 0}, "Count for 'a' is 0"),
        ({"a": [(1, 2, 3)]}, 5, "outside the volume"),
    ]:
        with pytest.raises(ValueError, match=message):
            retrieve(index, exemplars, count)


def test_partial_sorting_gives_the_same_assignment():
    """With few or enough sorted rows, every request gets the same rows as when all rows are sorted."""
    rng = np.random.default_rng(0)
    values = np.round(rng.random((5000, 3)).astype("f4"), 2)  # many ties
    values[:, 1] = values[:, 0]  # two requests for the same rows
    values[rng.random(5000) < 0.2] = -1
    for counts in ([5, 5, 5], [400, 900, 2], [3000, 3000, 3000]):
        first, whole = (assign(values, counts, whole=flag) for flag in (False, True))
        for a, b in zip(first, whole, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_selection_of_weak_labels(index):
    """Weak labels are selected by positions (none included), by a mask or by a slice."""
    weak = retrieve(index, {"left": [(104, 330, 200)], "right": [(104, 420, 200)]}, 3)
    assert len(weak.take([])) == 0 and weak.take([-1]).rows[0] == weak.rows[-1]
    for chosen in ([0, 1], slice(2), np.arange(len(weak)) < 2):
        assert weak.take(chosen).table.equals(weak.table.iloc[:2])


def test_a_constant_picture_is_refused(index):
    """A constant picture cannot serve as an exemplar."""
    with pytest.raises(ValueError, match="everywhere"):
        retrieve(index, {"fault": [np.full(index.grid.size, 0.5)]}, 3)


def test_an_index_without_a_usable_patch_is_refused(index, monkeypatch):
    """The error names what is wrong with the patches instead of failing in a sort."""
    monkeypatch.setattr(index, "status", np.full_like(index.status, 2))
    with pytest.raises(ValueError, match=r"None of the .* patches of the index can be used"):
        retrieve(index, PLACES, 30)
