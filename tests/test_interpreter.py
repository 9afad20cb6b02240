"""The simulated interpreter: its strokes, and their effect on real data."""

import os

import numpy as np
import pytest

import outcrop as oc
from outcrop import experiments
from outcrop.experiments import interpreter
from outcrop.experiments.f3 import BELOW_CAPTION, eye_exemplars
from outcrop.job.strokes import covered

real_data = pytest.mark.skipif("OUTCROP_DATA" not in os.environ, reason="needs the real data, OUTCROP_DATA")


def test_the_largest_error_is_painted_inside():
    """The largest wrong, unpainted region of one true class is found, and strokes of both shapes lie inside it."""
    truth = np.ones((60, 60), np.uint8)
    truth[5:50, 10:24] = 2
    truth[0:4, 40:60] = 3
    truth[:, 59] = 0
    labels = np.ones_like(truth)
    region, code = interpreter.largest_error(labels, truth, np.zeros(truth.shape, bool))
    assert code == 2 and region.sum() == 45 * 14
    for make in (interpreter.disc, interpreter.line_along):
        stroke = make(region, code)
        assert region[covered(truth.shape, stroke.spots, stroke.radius)].all()
    first, last = interpreter.line_along(region, code).spots
    assert abs(first[0] - last[0]) > 3 * abs(first[1] - last[1])  # along the longer side
    assert interpreter.largest_error(truth, truth, np.zeros(truth.shape, bool))[0] is None
    assert interpreter.largest_error(labels, truth, truth == 2)[1] == 3


def test_a_careless_interpreter_is_off_by_pixels_and_sometimes_wrong():
    """Over many strokes, the jitter has the given standard deviation, and wrong classes the given share."""
    rng = np.random.default_rng(0)
    stroke = interpreter.Stroke(1, [(100, 100)], 5.0)
    drawn = [interpreter.noisy(stroke, rng, [1, 2, 3]) for _ in range(2000)]
    off = np.array([one.spots[0] for one in drawn]) - 100
    assert np.std(off) == pytest.approx(interpreter.JITTER, rel=0.1)
    assert np.mean([one.code != 1 for one in drawn]) == pytest.approx(interpreter.WRONG, abs=0.02)


def test_a_quick_run_compares_all_methods(tmp_path):
    """Every method is scored from the same start; `paint only` changes no other line and no right label."""
    result, deviations = experiments.run("interpreter", None, tmp_path, quick=True)
    table = result.table.set_index("method")
    assert table.index.tolist() == list(interpreter.METHODS) and not deviations
    started = table["MIU after 0"]
    assert (started == started.iloc[0]).all()
    paint = table.loc["paint only"]
    assert paint["other line after"] == paint["other line before"] and paint["broken in a round, most"] == 0
    assert table.loc["strokes", "MIU after 3"] > paint["MIU after 3"]
    assert (tmp_path / "interpreter.csv").is_file()


@real_data
def test_strokes_on_a_real_line():
    """Four strokes on F3 improve labels more than painting alone, change few right labels, and harm no other line."""
    sections, truth = oc.datasets.f3_sections()
    sections = sections.sel(time=slice(BELOW_CAPTION, None)).load()
    setting = interpreter.Setting("F3", sections, truth, eye_exemplars(310), 330, 310, {"step": 33})
    with interpreter.opened(setting, 0, quick=False) as start:
        _, row, drawn = interpreter.paint(start, "strokes", 4, 0)
        found = {"strokes": row, "paint only": interpreter.paint(start, "paint only", 4, 0, drawn)[1]}
    gain = {method: row["MIU after 4"] - row["MIU after 0"] for method, row in found.items()}
    assert gain["strokes"] > gain["paint only"] + 0.01
    assert found["strokes"]["broken in a round, mean"] < 0.02
    assert found["strokes"]["other line after"] > found["strokes"]["other line before"] - 0.02
    assert found["strokes"]["error left outside"] < found["paint only"]["error left outside"]


def test_some_lines_and_methods_alone(tmp_path):
    """Lines and methods are chosen by name; unknown names, and baselines without strokes, are refused."""
    result, _ = experiments.run("interpreter", None, tmp_path, quick=True, only=["demo"], methods=["strokes"])
    assert result.table[["setting", "method"]].values.tolist() == [["demo", "strokes"]]
    for options, words in (
        ({"methods": ["bot"]}, "'bot' is unknown; choose from strokes"),
        ({"only": ["F3 331"]}, "'F3 331' is unknown; choose from demo"),
        ({"methods": ["paint only"]}, "draw no strokes"),
    ):
        with pytest.raises(ValueError, match=words):
            experiments.run("interpreter", None, tmp_path, quick=True, **options)
