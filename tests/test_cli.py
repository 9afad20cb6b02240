"""The command line: all commands on a small file; wrong input gives one line and exit code 2."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import segyio

import outcrop as oc
from outcrop import datasets
from outcrop.cli.console import show_frame

DATA = os.environ.get("OUTCROP_DATA")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Write a synthetic volume and index it; return their folder."""
    folder = tmp_path_factory.mktemp("cli")
    datasets.write_synthetic(folder / "v.sgy", (12, 120, 128), seed=1)
    command = [sys.executable, "-m", "outcrop", "index", folder / "v.sgy", "-o", folder / "v.outcrop", "--size", "48"]
    subprocess.run([*command, "--step", "24", "--every", "2"], check=True, capture_output=True)
    return folder


def test_info_describes_a_volume(outcrop, job):
    """Axes, format and patch size in physical units, as table and as JSON; no file is written."""
    before = sorted(os.listdir(job))
    code, output, _ = outcrop("info", job / "v.sgy")
    assert code == 0
    assert "step 4 (128)" in output
    code, output, _ = outcrop("info", job / "v.sgy", "--json", "--size", "200ms,1000m")
    facts = json.loads(output)
    assert facts["axes"]["time"]["count"] == 128
    assert facts["patch"] == {"samples": 50, "traces": 40, "height_ms": 200.0, "width_m": 1000.0}
    assert sorted(os.listdir(job)) == before


def test_retrieve_writes_a_table_and_pictures(outcrop, job):
    """The CSV has the requested number of rows for each class, pictures are drawn, and JSON has the same numbers."""
    words = ["retrieve", job / "v.outcrop", "--exemplar", "layers=104,360,250", "--exemplar", "salt-dome=108,350,400"]
    code, output, error = outcrop(*words, "--count", "layers=7,salt-dome=5", "--json")
    assert code == 0, error
    table = pd.read_csv(job / "v.outcrop" / "retrieved.csv")
    assert table["class"].value_counts().to_dict() == {"layers": 7, "salt dome": 5}
    assert json.loads(output)["classes"]["layers"]["patches"] == 7
    for picture in ("gallery.png", "similarity.png", "section.png"):
        assert (job / "v.outcrop" / picture).stat().st_size > 1000


HEAVY = {"zarr", "sklearn", "numba", "skimage", "matplotlib", "onnxruntime", "torch", "bokeh", "panel", "distributed"}


def loaded(*words):
    """Return the packages that a command loaded, and its output."""
    code = (
        "import sys; from outcrop.__main__ import main; sys.argv[0] = 'outcrop'\n"
        "try: main()\n"
        "finally: print(*{name.split('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return set(ran.stderr.split()), ran.stdout


def test_version_and_help_load_little():
    """Packages for computing are loaded only by the commands that need them."""
    assert not loaded("--help")[0] & (HEAVY | {"pandas", "scipy", "xarray", "dask"})
    found, output = loaded("--version")
    assert not found & HEAVY and output.split() == ["outcrop", oc.__version__]


def test_info_loads_no_package_for_computing(job):
    """A SEG-Y file is described without Zarr, nets, kernels or pictures."""
    found, output = loaded("info", job / "v.sgy")
    assert not found & HEAVY and "inline" in output


def test_synth_refuses_other_formats(outcrop, tmp_path):
    """The error proposes a name of a SEG-Y file, and nothing is written."""
    code, _, error = outcrop("synth", tmp_path / "x.npy")
    assert code == 2 and f"choose {tmp_path / 'x.sgy'}" in error and not list(tmp_path.iterdir())


def test_verdicts_are_kept(outcrop, job):
    """Rejected rows are left out of later retrievals and accepted rows stay in, until --forget clears the verdicts."""
    words = ["retrieve", job / "v.outcrop"]
    places = ["--exemplar", "layers=104,360,250", "--exemplar", "salt-dome=108,350,400", "--count", "6"]
    assert outcrop(*words, *places)[0] == 0
    first = pd.read_csv(job / "v.outcrop" / "retrieved.csv")
    yes, no = first["row"][[5, 11]], first["row"][[1, 8]]
    code, _, error = outcrop(*words, "--accept", ",".join(map(str, yes)), "--reject", no[1])
    assert code == 0, error
    assert outcrop(*words, "--reject", no[8])[0] == 0
    assert outcrop(*words, "--count", "9")[0] == 0
    table = pd.read_csv(job / "v.outcrop" / "retrieved.csv")
    assert len(table) == 18
    assert set(yes) <= set(table["row"])
    assert not set(no) & set(table["row"])
    assert outcrop(*words, *places, "--forget")[0] == 0
    pd.testing.assert_frame_equal(pd.read_csv(job / "v.outcrop" / "retrieved.csv"), first)


def test_dry_run_prints_the_cost_and_writes_nothing(outcrop, job, tmp_path):
    """A dry run prints patches, time and disk space, and makes no folder."""
    words = ["index", job / "v.sgy", "-o", tmp_path / "x.outcrop", "--size", "48", "--dry-run"]
    code, output, error = outcrop(*words, "--json")
    assert code == 0
    assert "patches of 48 x 48" in error and json.loads(output)["units"] == int(error.split()[0])
    assert not (tmp_path / "x.outcrop").exists()


def test_a_width_in_metres_follows_the_direction_of_the_sections(outcrop, job, tmp_path, monkeypatch):
    """A width in metres of crossline patches is divided by the distance between inlines, not between crosslines."""
    volume = oc.open_volume(job / "v.sgy").assign_attrs(bin_size=(100.0, 25.0))
    monkeypatch.setattr("outcrop.cli.indexing.open_volume", lambda *_: volume)
    words = ["index", job / "v.sgy", "-o", tmp_path / "x.outcrop", "--size", "200ms,800m", "--dry-run", "--along"]
    assert "50 x 32" in outcrop(*words, "inline")[2]
    assert "50 x 8" in outcrop(*words, "crossline", "--measure", "curvelet-svd")[2]  # 12 inlines hold no larger one


def test_an_index_opens_one_job_and_plans_one_grid(outcrop, job, tmp_path, monkeypatch):
    """A refused option changes neither the folder nor the decisions, for new and for existing jobs."""
    from outcrop.job.core import Job
    from outcrop.patches.grid import PatchGrid

    calls = []

    def counted(name, home):
        original = home.__init__

        def init(self, *args, **options):
            calls.append(name)
            original(self, *args, **options)

        monkeypatch.setattr(home, "__init__", init)

    counted("job", Job)
    counted("grid", PatchGrid)
    words = ["index", job / "v.sgy", "-o", tmp_path / "o.outcrop", "--every", 4]
    for size in ("48", "48", "40"):
        calls.clear()
        assert outcrop(*words, "--size", size)[0] == 0
        assert sorted(calls) == ["grid", "job"]
    before = len(oc.Job(tmp_path / "o.outcrop").decisions)
    assert outcrop(*words, "--size", "500")[0] == 2
    assert len(oc.Job(tmp_path / "o.outcrop").decisions) == before


def test_area_and_horizons_reach_the_grid(outcrop, job, tmp_path):
    """Options of the command are passed to the grid."""
    for name, time in (("top", 100), ("base", 400)):
        lines = [f"{i} {x} {time}" for i in range(100, 112) for x in range(300, 420)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines))
    words = ["index", job / "v.sgy", "-o", tmp_path / "a.outcrop", "--size", "200ms,800m", "--along", "both"]
    words += ["--inlines", "100,111", "--times", "80,500", "--between", f"{tmp_path}/top.txt,{tmp_path}/base.txt"]
    code, _, error = outcrop(*words, "--gain", "agc:200")
    assert code == 2  # 12 inlines cannot hold a crossline patch of 32 traces
    assert "too small for any patch" in error
    code, _, error = outcrop(*[w if w != "both" else "inline" for w in words], "--gain", "agc:200")
    assert code == 0, error
    options = vars(oc.Job(tmp_path / "a.outcrop").plan.index)
    assert options["area"] == {"inline": [100, 111], "time": [80, 500]} and options["gain"] == "agc:200"
    assert len(options["between"]) == 2 and "patches described" in error


def wrong_inputs(job, folder):
    """Return wrong commands, each with a part of its error."""
    (folder / "noise.sgy").write_bytes(np.random.default_rng(0).bytes(5000))
    (folder / "empty.sgy").write_bytes(b"")
    (folder / "short.sgy").write_bytes((job / "v.sgy").read_bytes()[:100_000])
    (folder / "nan.npy").write_bytes(b"")
    np.save(folder / "nan.npy", np.full((2, 40, 40), np.nan))
    (folder / "old.outcrop").mkdir()
    (folder / "old.outcrop" / "job.toml").write_text("format = 0")
    (folder / "file").write_text("")
    oc.Job(job / "empty.outcrop", volume=job / "v.sgy")
    v, o = job / "v.sgy", ["-o", folder / "x.outcrop"]
    retrieve = ["retrieve", job / "v.outcrop", "--exemplar"]
    return [
        (["info", folder / "noise.sgy"], "noise.sgy"),
        (["info", folder / "empty.sgy"], "empty"),
        (["index", folder / "short.sgy", *o], "truncated"),
        (["info", folder / "nothere.sgy"], "nothere.sgy"),
        (["index", v, *o, "--header-bytes", "1,2,3"], "--header-bytes"),
        (["index", v, *o, "--header-bytes", "25,33"], "header"),
        (["index", v, *o, "--size", "500"], "exceeds"),
        (["index", v, *o, "--size", "big"], "big"),
        (["index", v, *o, "--size", "48", "--gain", "loud"], "loud"),
        (["index", v, "-o", folder / "file" / "x.outcrop", "--size", "48"], "file"),
        (["index", folder / "nan.npy", *o, "--size", "32"], "NaN"),
        (["retrieve", folder / "old.outcrop", "--exemplar", "a=1,2,3"], "format 0"),
        (["label", job / "empty.outcrop"], "no exemplars yet"),
        (["label", job / "v.outcrop", "--min-confidence", "2"], "min_confidence is 2.0; choose"),
        (["export", job / "empty.outcrop", folder / "x.sgy"], "no labels yet"),
        (["evaluate", job / "empty.outcrop"], "no labels yet"),
        (["decisions", job / "v.outcrop", "--import", folder / "file"], "holds no decisions"),
        (["label", v, "--mapper", job / "v.outcrop"], "--output"),
        (["retrieve", folder / "none.outcrop", "--exemplar", "a=1,2,3"], "not a job folder"),
        ([*retrieve, "fault=1,2,3"], "outside the volume"),
        ([*retrieve, "fault"], "CLASS=INLINE"),
        ([*retrieve, "fault=104,360"], "three numbers"),
        ([*retrieve, "fault=nosuch.png"], "nosuch.png"),
        ([*retrieve, "fault=104,360,250", "--count", "1000000000"], "choose 1 to"),
        ([*retrieve, "fault=104,360,250", "--count", "salt=3"], "Class 'salt' is unknown"),
        ([*retrieve, "uncertain=104,360,250"], "not a class name"),
        ([*retrieve, "fault=104,360,250", "--reject", "12,x"], "--reject is"),
        ([*retrieve, "fault=104,360,250", "--accept", "123456"], "not in the retrieved table"),
        (["synth", folder / "s.sgy", "--shape", "3,4"], "--shape"),
        (["reproduce", "nosuch"], "Unknown experiment"),
        (["index", v, *o, "--size", "48", "--every", "0"], "every is 0"),
        (["app", v, "--port", "99999999"], "--port"),
        (["label", job / "v.outcrop", "--with", folder / "none.outcrop"], "not a job folder"),
        (["nosuch"], "nosuch"),
        (["index"], "Missing"),
    ]


def test_wrong_input_gets_one_line_and_leaves_nothing(outcrop, job, tmp_path):
    """Exit code 2, one line with the value or the remedy, no traceback, no folder left behind."""
    for words, says in wrong_inputs(job, tmp_path):
        code, _, error = outcrop(*words)
        assert code == 2, (words, error)
        *before, last = error.strip().splitlines()  # the cost may be printed before the error
        assert len(before) <= 2, (words, error)
        assert last.startswith("Error: "), (words, error)
        assert says in last, (words, error)
    assert not (tmp_path / "x.outcrop").exists()


def test_jobs_with_patches_of_other_sizes_join(outcrop, job, tmp_path):
    """Exemplars of two jobs give one set of labels, which become stale when either job changes."""
    large, small = tmp_path / "large.outcrop", tmp_path / "small.outcrop"
    for path, size, name in ((large, 48, "other=104,360,250"), (small, 32, "salt dome=108,350,400")):
        words = ["--size", size, "--step", 16, "--every", 2, "--measure", "curvelet-svd"]
        assert outcrop("index", job / "v.sgy", "-o", path, *words)[0] == 0
        assert outcrop("retrieve", path, "--exemplar", name, "--count", 20)[0] == 0
    words = ["label", large, "--with", small, "--lines", "104"]
    code, _, error = outcrop(*words)
    assert code == 0, error
    labels = oc.Job(large).labels
    assert [n for n in labels.attrs["classes"] if n in ("other", "salt dome")] == ["other", "salt dome"]
    assert set(np.unique(labels["label"].sel(inline=104))) == {1, 2}
    assert status(outcrop, large)["lines"]["stale"] == 0
    assert outcrop("retrieve", small, "--exemplar", "salt dome=106,352,400")[0] == 0
    assert status(outcrop, large)["lines"] == {"total": 12, "labelled": 1, "stale": 1, "confirmed": 0}
    assert outcrop(*words)[0] == 0 and status(outcrop, large)["lines"]["stale"] == 0
    code, _, error = outcrop(*words, "--mapping", "paper")
    assert code == 2 and "learns from one job" in error
    datasets.write_synthetic(tmp_path / "w.sgy", (4, 80, 80), seed=2)
    outcrop("index", tmp_path / "w.sgy", "-o", tmp_path / "w.outcrop", "--size", 32)
    code, _, error = outcrop("label", large, "--with", tmp_path / "w.outcrop")
    assert code == 2 and "another volume" in error


def status(outcrop, path):
    """Return the result of `outcrop status --json`."""
    code, output, error = outcrop("status", path, "--json")
    assert code == 0, error
    return json.loads(output)


def test_all_commands_on_one_job(outcrop, job, tmp_path):
    """Exemplars, labels, exports, decisions and cleaning: every command, and the counts that it prints."""
    path = tmp_path / "s.outcrop"
    places = ["--exemplar", "salt-dome=108,350,400", "--exemplar", "other=104,360,250"]
    assert outcrop("index", job / "v.sgy", "-o", path, "--size", 48, "--step", 24, "--every", 2)[0] == 0
    code, _, error = outcrop("retrieve", path, *places, "--count", 8, "--diverse")
    assert code == 0 and error.count("--diverse") == 1
    assert outcrop("label", path, "--lines", "104,105", "--device", "cpu")[0] == 0
    found = status(outcrop, path)
    assert found["next"] == f"outcrop label {path}"  # ten lines are not labelled
    assert found["lines"] == {"total": 12, "labelled": 2, "stale": 0, "confirmed": 0} and found["classes"] == {
        "salt dome": 1,
        "other": 2,
    }
    assert found["retrieved"] == {"salt dome": 8, "other": 8} and found["background"] == "other"
    assert outcrop("label", path, "--lines", "104", "--max-error", "0.05")[0] == 0
    assert status(outcrop, path)["lines"] == {"total": 12, "labelled": 2, "stale": 0, "confirmed": 0}
    code, _, error = outcrop("export", path, tmp_path / "l.sgy")
    assert code == 0 and "2 of 12 lines labelled, 10 missing" in error
    assert outcrop("index", job / "v.sgy", "-o", path, "--size", 48, "--step", 20, "--every", 2)[0] == 0
    assert outcrop("retrieve", path, "--remove", "salt-dome=108,350,400", "--exemplar", "salt dome=108,352,400")[0] == 0
    assert status(outcrop, path)["decisions"]["exemplars"] == 2
    code, _, error = outcrop("export", path, tmp_path / "m.sgy")
    assert code == 2 and "--stale" in error and not (tmp_path / "m.sgy").exists()
    code, output, _ = outcrop("decisions", path)
    assert code == 0 and "108, 352, 400" in output and "shell" in output
    removed = [row for row in json.loads(outcrop("decisions", path, "--json")[1]) if row["what"] == "remove"]
    assert [(row["class"], row["where"]) for row in removed] == [("salt dome", "108, 350, 400")]
    assert outcrop("decisions", path, "--undo")[0] == 0
    assert outcrop("decisions", path, "--export", tmp_path / "d.jsonl")[0] == 0
    other = tmp_path / "o.outcrop"
    assert outcrop("index", job / "v.sgy", "-o", other, "--size", 48, "--step", 24, "--every", 2)[0] == 0
    assert outcrop("decisions", other, "--import", tmp_path / "d.jsonl")[0] == 0
    assert status(outcrop, other)["decisions"] == status(outcrop, path)["decisions"]
    assert outcrop("label", other, "--lines", "104", "--min-confidence", "0")[0] == 0
    code, output, error = outcrop("evaluate", path, "--against", other, "--json")
    assert code == 0, error
    assert json.loads(output)["lines"] == [104]
    third = tmp_path / "t.outcrop"
    code, _, error = outcrop("label", job / "v.sgy", "-o", third, "--mapper", other, "--lines", "104")
    assert code == 0, error
    first, second = (oc.Job(p).labels["label"].sel(inline=104).values for p in (other, third))
    assert (first == second).mean() > 0.95  # a borrowed mapper knows what classes look like, not where they lie
    code, output, _ = outcrop("clean", path, "--json")
    assert code == 0 and not any(row["removed"] for row in json.loads(output))
    assert outcrop("clean", path, "--remove")[0] == 0
    assert status(outcrop, path)["lines"]["labelled"] == 2


def test_a_class_that_takes_most_of_the_index_is_warned_about(outcrop, job, tmp_path):
    """A job without a background gives a warning too."""
    path = tmp_path / "w.outcrop"
    assert outcrop("index", job / "v.sgy", "-o", path, "--size", 48, "--step", 24, "--every", 2)[0] == 0
    n = len(oc.Job(path).grid())
    places = ["--exemplar", "salt-dome=108,350,400", "--exemplar", "reef=104,360,250"]
    code, _, error = outcrop("retrieve", path, *places, "--count", f"salt-dome={n * 2 // 3},reef=3")
    assert code == 0 and "takes" in error and "--background" in error


def test_messages_use_the_singular(outcrop, job, tmp_path):
    """One exemplar is written in the singular; a job without classes has an error of its own."""
    words = ["index", job / "v.sgy", "-o", tmp_path / "n.outcrop", "--size", 48, "--step", 24, "--every", 4]
    with oc.Job(tmp_path / "n.outcrop", volume=job / "v.sgy") as one:
        one.choose_index(size=48, step=24, every=4)
        code, _, error = outcrop("faults", one.path, "-o", tmp_path / "f.csv")
        assert code == 2 and "No class of" in error and "it has no class yet" in error
        one.add_exemplar("salt dome", (108, 350, 400))
    code, _, error = outcrop(*words)
    assert code == 0 and "kept: 1 exemplar\n" in error
    assert "1 exemplar;" in outcrop("status", tmp_path / "n.outcrop")[1]


def test_tables_in_a_pipe_are_complete(capsys):
    """Every value is printed in full, with any number of columns."""
    frame = pd.DataFrame([{f"a column with a long name {i}": i + 0.125 for i in range(30)} | {"none": np.nan}])
    show_frame(frame, "wide")
    output = capsys.readouterr().out
    assert all(f"{i}.125" in output for i in range(30))
    assert "nan" not in output


@pytest.mark.skipif(not DATA, reason="needs the real data in OUTCROP_DATA")
def test_real_file_from_index_to_export(outcrop, tmp_path):
    """Index, retrieve, label and export two F3 inlines; segyio reads labels and headers back."""
    source = Path(str(DATA)) / "segy" / "f3_inlines_110_111.sgy"
    code, _, error = outcrop("index", source, "-o", tmp_path / "f3.outcrop", "--step", "66")
    assert code == 0, error
    words = ["--exemplar", "chaotic=110,420,1272", "--exemplar", "other=110,600,752", "--count", "12"]
    code, _, _ = outcrop("retrieve", tmp_path / "f3.outcrop", *words)
    assert code == 0
    table = pd.read_csv(tmp_path / "f3.outcrop" / "retrieved.csv")
    assert table.groupby("class").weight.apply(lambda s: s.is_monotonic_decreasing).all()
    for words in (["label", "--lines", "110"], ["evaluate", "--lines", "110", "--json"], ["status"]):
        code, _, error = outcrop(words[0], tmp_path / "f3.outcrop", *words[1:])
        assert code == 0, error
    code, _, error = outcrop("export", tmp_path / "f3.outcrop", tmp_path / "labels.sgy")
    assert code == 0, error
    with (
        segyio.open(tmp_path / "labels.sgy", ignore_geometry=True) as ours,
        segyio.open(source, ignore_geometry=True) as theirs,
    ):
        assert ours.header[77] == theirs.header[77]
        assert set(np.unique(ours.trace[77])) <= {1, 2}
        assert not ours.trace[951 + 77].any()  # inline 111 was not labelled


def test_a_survey_is_never_replaced(outcrop, tmp_path):
    """Neither a synthetic volume nor decisions replace it; a file that Outcrop wrote is replaced."""
    from outcrop.volumes import segy_headers

    out = tmp_path / "real.sgy"
    assert outcrop("synth", out, "--shape", "2,20,40")[0] == 0
    assert outcrop("synth", out, "--shape", "2,20,40", "--seed", "1")[0] == 0
    code, _, error = outcrop("export", tmp_path / "job.outcrop", tmp_path / "real.truth.sgy")
    assert code == 2 and "a synthetic volume or its truth" in error
    content = out.read_bytes()
    out.write_bytes(segy_headers.text_header("A real survey") + content[3200:])
    before = out.read_bytes()
    code, _, error = outcrop("synth", out, "--shape", "2,20,40")
    assert code == 2 and "not written by Outcrop" in error
    with oc.Job(tmp_path / "job.outcrop", volume=out) as job:
        job.add_class("fault")
    code, _, error = outcrop("decisions", tmp_path / "job.outcrop", "--export", out)
    assert code == 2 and "name of a volume" in error
    assert out.read_bytes() == before


def test_a_first_job_needs_no_index(outcrop, job, tmp_path):
    """Label takes a volume and exemplars; status names the next command before and after."""
    path = tmp_path / "first.outcrop"
    code, _, error = outcrop("label", job / "v.sgy", "-o", path, "--lines", 104)
    assert code == 2 and "add --exemplar CLASS=INLINE,CROSSLINE,TIME" in error
    assert status(outcrop, path)["next"].endswith("--exemplar CLASS=INLINE,CROSSLINE,TIME")
    places = ["--exemplar", "salt dome=104,350,400", "--exemplar", "other=104,360,250"]
    assert outcrop("label", path, *places, "--lines", 104)[0] == 0
    found = status(outcrop, path)
    assert found["lines"]["labelled"] == 1 and not found["index"]["finished"] and found["decisions"]["exemplars"] == 2
    code, _, error = outcrop("label", path, "--exemplar", "fault=104,340,300", "--dry-run")
    assert code == 2 and "records no decision" in error
    code, _, error = outcrop("label", path, "--exemplar", "fault=104,340,300", "--exemplar", "fault=99,340,300")
    assert code == 2 and status(outcrop, path)["decisions"]["exemplars"] == 2  # one position is wrong: neither is added
