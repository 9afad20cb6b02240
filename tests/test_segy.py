"""Geometry, reading and writing of SEG-Y, on files whose samples encode their position and on real files."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import reference
import segyio

from outcrop.volumes import class_table, segy, segy_headers, segy_layout, segy_write
from outcrop.volumes.traces import find_runs, make_grid

INLINES, CROSSLINES, N_SAMPLES = np.array([10, 12, 14]), np.array([100, 101, 102, 103]), 5
FLOATS, INTEGERS = [1, 5, 6], [2, 3, 8, 10, 11, 16]


def position_code(inlines=INLINES, crosslines=CROSSLINES, n_samples=N_SAMPLES):
    """Return a volume whose samples encode their position: inline + crossline / 100 + sample / 10000."""
    return inlines[:, None, None] + crosslines[:, None] / 100 + np.arange(n_samples) / 10000


def write_by_segyio(path, volume, *, format=5, endian="big", header_bytes=(189, 193), order=None, labels=None):
    """Write traces with segyio in a given order; `labels` (n, 2) are INLINES x CROSSLINES by default."""
    if labels is None:
        labels = np.array([(inline, crossline) for inline in INLINES for crossline in CROSSLINES])
    traces = volume.reshape(len(labels), -1)
    order = np.arange(len(labels)) if order is None else order
    spec = segyio.spec()
    spec.format, spec.endian = format, endian
    spec.samples, spec.tracecount = np.arange(traces.shape[1]) * 4, len(order)
    with segyio.create(str(path), spec) as file:
        file.bin.update({segyio.BinField.Interval: 4000})
        for number, source in enumerate(order):
            inline, crossline = map(int, labels[source])
            file.header[number] = {
                segyio.su.tracf: 77,
                segyio.su.delrt: 8,
                segyio.su.ns: traces.shape[1],
                segyio.su.dt: 4000,
                segyio.su.scalco: -10,
                segyio.su.cdpx: 10 * 25 * (crossline - 100),
                segyio.su.cdpy: 10 * 6 * (inline - 10),
                header_bytes[0]: inline,
                header_bytes[1]: crossline,
            }
            file.trace[number] = traces[source].astype(
                file.dtype
            )  # a copy, because segyio changes an array that it writes as IBM
    return path


def read_all(geometry):
    """Read the whole volume of a geometry."""
    return segy.read(geometry, np.arange(len(geometry.inlines)), np.arange(len(geometry.crosslines)))


def in_order(name):
    """Return the trace numbers of a volume in a named order."""
    numbers = np.arange(len(INLINES) * len(CROSSLINES))
    grid = numbers.reshape(len(INLINES), len(CROSSLINES))
    orders = {"inline": numbers, "crossline": grid.T.ravel(), "backwards": numbers[::-1]}
    return orders[name] if name in orders else np.random.default_rng(0).permutation(numbers)


@pytest.mark.parametrize("order", ["inline", "crossline", "backwards", "shuffled"])
@pytest.mark.parametrize("endian", ["big", "little"])
@pytest.mark.parametrize("format", FLOATS + INTEGERS)
def test_every_format_endianness_and_sorting_reads_back_along_every_axis(tmp_path, format, endian, order):
    """Every sample is read at its position, in the whole volume and in parts of it."""
    code = position_code() if format in FLOATS else np.arange(60).reshape(3, 4, 5)
    write_by_segyio(tmp_path / "a.sgy", code, format=format, endian=endian, order=in_order(order))
    geometry = segy.scan(tmp_path / "a.sgy")
    assert (segy_headers.ENDIANS[geometry.layout.order], geometry.layout.format) == (endian, format)
    assert geometry.inlines.tolist() == INLINES.tolist()
    assert geometry.crosslines.tolist() == CROSSLINES.tolist()
    assert geometry.samples.tolist() == [8, 12, 16, 20, 24]
    tolerance = 1e-4 if format == 1 else 1e-5  # IBM has at least 21 bits; samples differ by 1e-4
    np.testing.assert_allclose(read_all(geometry), code, rtol=0, atol=tolerance / 10)
    for rows, columns, samples in [
        ([1], [0, 1, 2, 3], slice(None)),
        ([0, 1, 2], [2], slice(1, 4)),
        ([2, 0], [3, 1], slice(4, None, -2)),
    ]:
        part = segy.read(geometry, rows, columns, samples=samples)
        np.testing.assert_allclose(part, code[np.ix_(rows, columns)][..., samples], rtol=0, atol=tolerance / 10)


@pytest.mark.parametrize("header_bytes", [(189, 193), (5, 21), (9, 21), (17, 13), (233, 237)])
@pytest.mark.parametrize("given", [False, True])
def test_header_bytes_are_found_or_given(tmp_path, header_bytes, given):
    """The usual header bytes of inline and crossline are found if none are given."""
    write_by_segyio(tmp_path / "a.sgy", position_code(), header_bytes=header_bytes)
    geometry = segy.scan(tmp_path / "a.sgy", header_bytes=header_bytes if given else None)
    assert geometry.header_bytes == header_bytes
    np.testing.assert_allclose(read_all(geometry), position_code(), atol=1e-5)


@pytest.mark.parametrize(
    ("header_bytes", "remedy"),
    [((115, 119), "--header-bytes"), ((1, 300), "two from 1 to 237"), ((189,), "two from 1 to 237")],
)
def test_wrong_header_bytes_are_refused_in_one_line(tmp_path, header_bytes, remedy):
    """For bytes without line labels or outside the header, the error states the remedy."""
    write_by_segyio(tmp_path / "a.sgy", position_code())
    with pytest.raises(ValueError, match=remedy) as error:
        segy.scan(tmp_path / "a.sgy", header_bytes=header_bytes)
    assert "\n" not in str(error.value)


def test_narrow_lines_are_not_taken_for_one_long_line(tmp_path):
    """A running CDP number has steadier steps than labels of lines of three traces, but the labels are used."""
    labels = np.array([(inline, crossline) for inline in range(40) for crossline in (7, 8, 9)])
    path = write_by_segyio(tmp_path / "a.sgy", np.zeros((120, 3)), labels=labels)
    with segyio.open(str(path), "r+", ignore_geometry=True) as file:
        for number in range(120):
            file.header[number] = {segyio.su.cdp: number + 1, segyio.su.fldr: 1}
    assert segy.scan(path).traces.shape == (40, 3)


def test_a_sparse_file_of_terabytes_is_refused_at_once(tmp_path):
    """Three thousand million empty traces after one valid trace are refused without a scan of each trace."""
    data = write_by_segyio(tmp_path / "a.sgy", position_code()).read_bytes()
    (tmp_path / "b.sgy").write_bytes(data[:3860])
    os.truncate(tmp_path / "b.sgy", 3600 + 260 * 3 * 10**9)
    with pytest.raises(ValueError, match="header bytes"):
        segy.scan(tmp_path / "b.sgy")


def test_random_labels_do_not_make_a_vast_grid(tmp_path):
    """Labels that would span 10^12 cells are refused before a grid is made."""
    labels = np.random.default_rng(0).integers(0, 10**6, (1000, 2))
    write_by_segyio(tmp_path / "a.sgy", np.zeros((1000, 2)), labels=labels)
    with pytest.raises(ValueError, match="189/193"):
        segy.scan(tmp_path / "a.sgy", header_bytes=(189, 193))


def test_bin_size_follows_coordinates_and_their_scalar(tmp_path):
    """Bins of 12 m x 25 m are found from coordinates in decimetres, also if one coordinate is wrong."""
    write_by_segyio(tmp_path / "a.sgy", position_code())
    assert segy.scan(tmp_path / "a.sgy").bin_size == (12.0, 25.0)
    with segyio.open(str(tmp_path / "a.sgy"), "r+", ignore_geometry=True) as file:
        file.header[5] = {segyio.su.cdpx: 2**30}
    assert segy.scan(tmp_path / "a.sgy").bin_size == (12.0, 25.0)


def test_a_single_inline_has_no_inline_spacing(tmp_path):
    """In the bin size of a single inline, the distance to the next inline is NaN."""
    labels = np.array([(10, crossline) for crossline in CROSSLINES])
    write_by_segyio(tmp_path / "a.sgy", position_code()[0], labels=labels)
    geometry = segy.scan(tmp_path / "a.sgy")
    assert geometry.traces.shape == (1, 4)
    np.testing.assert_equal(geometry.bin_size, (np.nan, 25.0))


def test_missing_traces_are_nan_and_missing_lines_are_filled_in(tmp_path):
    """Missing traces of an irregular survey are NaN, also on a line without any trace."""
    inlines = np.array([10, 11, 13, 14])
    labels = np.array([(i, x) for i in inlines for x in CROSSLINES if (i, x) not in {(10, 100), (13, 102)}])
    values = labels[:, :1] + labels[:, 1:] / 100 + np.arange(N_SAMPLES) / 10000
    geometry = segy.scan(write_by_segyio(tmp_path / "a.sgy", values, labels=labels))
    assert geometry.inlines.tolist() == [10, 11, 12, 13, 14]
    expected = position_code(np.arange(10, 15))
    expected[0, 0] = expected[3, 2] = expected[2] = np.nan
    np.testing.assert_allclose(read_all(geometry), expected, atol=1e-5)


def test_lines_far_apart_are_not_filled_in(tmp_path):
    """A file with a few lines far apart is a volume of these lines only."""
    labels = np.array([(i, x) for i in (100, 300, 301) for x in CROSSLINES])
    geometry = segy.scan(write_by_segyio(tmp_path / "a.sgy", np.zeros((12, 3)), labels=labels))
    assert geometry.inlines.tolist() == [100, 300, 301]


def test_of_duplicate_traces_the_last_is_read(tmp_path):
    """Traces with equal labels are counted as duplicates, and the last one is read."""
    labels = np.array([(10, 100), (10, 101), (10, 100), (11, 100), (11, 101)])
    write_by_segyio(tmp_path / "a.sgy", np.arange(5.0)[:, None] * np.ones(3), labels=labels)
    geometry = segy.scan(tmp_path / "a.sgy")
    assert geometry.duplicates == 1
    assert read_all(geometry)[..., 0].tolist() == [[2, 1], [3, 4]]


def test_traces_marked_dead_are_nan(tmp_path):
    """A trace with identification code 2 is NaN and counted as dead."""
    write_by_segyio(tmp_path / "a.sgy", position_code())
    with segyio.open(str(tmp_path / "a.sgy"), "r+", ignore_geometry=True) as file:
        file.header[5] = {segyio.su.trid: 2}
    geometry = segy.scan(tmp_path / "a.sgy")
    assert geometry.dead == 1
    assert np.isnan(read_all(geometry)).all(-1).nonzero() == (1, 1)


@pytest.mark.parametrize("wrong", [{3221: 77}, {3221: 77, "traces": 78}, {3221: 0}, {3505: 9}, {3505: -1}])
def test_wrong_headers_are_corrected_by_the_file_size(tmp_path, wrong):
    """A file with a wrong sample count or number of extended headers is read correctly."""
    path = write_by_segyio(tmp_path / "a.sgy", position_code())
    with segyio.open(str(path), "r+", ignore_geometry=True) as file:
        file.bin.update({byte: value for byte, value in wrong.items() if byte != "traces"})
        for number in range(12) if "traces" in wrong else []:
            file.header[number] = {segyio.su.ns: wrong["traces"]}
    geometry = segy.scan(path)
    np.testing.assert_allclose(read_all(geometry), position_code(), atol=1e-5)
    assert bool(geometry.notes) == (wrong.get(3221, 0) > 0)


@pytest.mark.parametrize("stated", [2, -1])
def test_extended_text_headers_are_skipped(tmp_path, stated):
    """Traces after two extended text headers are found, whether the number of headers is stated or not."""
    data = bytearray(write_by_segyio(tmp_path / "a.sgy", position_code()).read_bytes())
    data[3504:3506] = stated.to_bytes(2, "big", signed=True)
    (tmp_path / "b.sgy").write_bytes(data[:3600] + b" " * 6400 + data[3600:])
    np.testing.assert_allclose(read_all(segy.scan(tmp_path / "b.sgy")), position_code(), atol=1e-5)


@pytest.mark.parametrize("size", [0, 100, 3599, 3600, 3700, 3840, 3861, 4000])
def test_truncated_and_empty_files_are_refused(tmp_path, size):
    """A file that ends before or inside its traces gives an error that names it."""
    data = write_by_segyio(tmp_path / "a.sgy", position_code()).read_bytes()
    (tmp_path / "b.sgy").write_bytes(data[:size])
    with pytest.raises(ValueError, match=r"b\.sgy"):
        segy.scan(tmp_path / "b.sgy")


def test_noise_is_refused(tmp_path):
    """Files of random bytes are not read as SEG-Y."""
    rng = np.random.default_rng(0)
    for number in range(50):
        (tmp_path / "noise.sgy").write_bytes(rng.bytes(int(rng.integers(3000, 9000))))
        with pytest.raises(ValueError, match=r"noise\.sgy"):
            segy.scan(tmp_path / "noise.sgy")
            pytest.fail(f"noise {number} opened")


def test_a_file_truncated_after_opening_gives_an_error(tmp_path):
    """Reading beyond the end of a truncated file raises an error instead of a crash."""
    path = write_by_segyio(tmp_path / "a.sgy", position_code())
    geometry = segy.scan(path)
    os.truncate(path, 4000)
    with pytest.raises(ValueError, match="changed since"):
        read_all(geometry)


def test_nan_and_inf_are_read_unchanged(tmp_path):
    """Reading keeps NaN, Inf and -Inf at their positions."""
    code = position_code()
    code[0, 0, 0], code[1, 1, 1], code[2, 2, 2] = np.nan, np.inf, -np.inf
    np.testing.assert_allclose(read_all(segy.scan(write_by_segyio(tmp_path / "a.sgy", code))), code, atol=1e-5)


def test_a_geometry_has_a_short_pickle_and_is_safe_for_threads(tmp_path):
    """An unpickled geometry reads the same samples, in eight threads too, and refuses a changed file."""
    path = write_by_segyio(tmp_path / "a.sgy", position_code())
    geometry = segy.scan(path)
    sent = pickle.dumps(geometry)
    assert len(sent) < 2000
    received = pickle.loads(sent)
    np.testing.assert_array_equal(received.traces[range(3), range(4)], geometry.traces[range(3), range(4)])
    with ThreadPoolExecutor(8) as pool:
        sections = list(pool.map(lambda i: segy.read(received, [i % 3], range(4))[0], range(300)))
    np.testing.assert_allclose(sections, np.tile(position_code(), (100, 1, 1)), atol=1e-5)
    os.utime(path, (0, 0))
    with pytest.raises(ValueError, match="changed"):
        pickle.loads(sent)


@pytest.mark.parametrize("seed", range(12))
def test_runs_give_the_position_of_every_trace(seed):
    """Runs equal a plain table for sorted, zigzag and shuffled traces, with missing, duplicate and dead ones."""
    rng = np.random.default_rng(seed)
    inline, crossline = (labels.ravel() for labels in np.meshgrid(5 + 3 * np.arange(40), np.arange(60, 0, -1)))
    crossline = np.where(inline % 2 == seed % 2, crossline, 61 - crossline)
    order = np.argsort(inline if seed % 3 else crossline, kind="stable") if seed < 9 else rng.permutation(2400)
    order = np.insert(np.delete(order, rng.integers(0, 2400, 9 * seed)), 20, order[:3])
    dead = np.unique(rng.integers(0, len(order), 5 * seed))
    labels = inline[order], crossline[order]
    traces = make_grid(find_runs(*labels), dead)["traces"]
    table = reference.trace_table(*labels, dead, traces.inlines, traces.crosslines)
    np.testing.assert_array_equal(traces.live(), table >= 0)
    for _ in range(20):
        rows, columns = (rng.integers(0, n, rng.integers(0, 5)) for n in table.shape)
        np.testing.assert_array_equal(traces[rows, columns], table[np.ix_(rows, columns)])


def test_a_sorted_survey_has_one_run_per_line():
    """A million traces on a thousand lines are a thousand runs, sorted by inline or by crossline."""
    inline, crossline = (labels.ravel() for labels in np.meshgrid(np.arange(1000), np.arange(1000)))
    for labels in ((inline, crossline), (crossline, inline)):
        assert len(find_runs(*labels)) == 1000


def test_a_large_file_is_opened_by_its_headers_alone(tmp_path):
    """Opening a file of 21 GB and reading a few traces maps less than 1 GB of it."""
    layout = segy_layout.Layout(str(tmp_path / "vast.sgy"), ">", 6, 3600, 65535, 40000)
    small = write_by_segyio(tmp_path / "a.sgy", position_code(), format=6).read_bytes()
    with open(layout.path, "wb") as file:
        file.write(small[:3600])
        file.truncate(3600 + layout.n_traces * layout.trace.itemsize)
        header = np.zeros(1, segy_headers.trace_dtype())
        header["samples"], header["interval"] = 65535, 4000
        for number in range(layout.n_traces):
            header["inline"], header["crossline"] = divmod(number, 200)
            os.pwrite(file.fileno(), header.tobytes(), 3600 + number * layout.trace.itemsize)
        os.pwrite(file.fileno(), (65535).to_bytes(2, "big"), 3220)
    assert os.path.getsize(layout.path) > 20e9
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF)
    geometry = segy.scan(layout.path)
    part = segy.read(geometry, [100], range(0, 200, 50), samples=slice(0, 1000))
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert geometry.traces.shape == (200, 200) and not part.any()
    faults = after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt
    assert faults * 4096 < 1e9


def test_ibm_numbers_are_decoded_and_encoded_without_loss():
    """Normalised IBM bits are equal after decoding and encoding; floats are equal to 21 bits."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, 10**5) << 31 | rng.integers(40, 90, 10**5) << 24 | rng.integers(1 << 20, 1 << 24, 10**5)
    np.testing.assert_array_equal(segy_headers.ibm_bits(segy_headers.decode(bits.astype(">u4"), 1)), bits)
    x = rng.standard_normal(10**5) * 10.0 ** rng.integers(-30, 30, 10**5)
    np.testing.assert_allclose(segy_headers.decode(segy_headers.ibm_bits(x), 1), x.astype(np.float32), rtol=2.0**-21)
    assert segy_headers.decode(segy_headers.ibm_bits([np.nan, np.inf, -np.inf, 0.0]), 1).tolist() == [
        0,
        np.inf,
        -np.inf,
        0,
    ]


def test_ibm_numbers_equal_those_of_segyio(tmp_path):
    """IBM bits equal those of segyio except for the last bit, which segyio truncates and we round."""
    x = np.random.default_rng(0).standard_normal((12, 500)).astype(np.float32) * 1000
    stored = np.frombuffer(write_by_segyio(tmp_path / "a.sgy", x, format=1).read_bytes()[3600:], "V240, (500,)>u4")[
        "f1"
    ]
    assert np.abs(segy_headers.ibm_bits(x).astype(np.int64) - stored).max() <= 1


@pytest.mark.parametrize("format", FLOATS + INTEGERS)
def test_a_written_volume_is_read_back_by_segyio_and_by_us(tmp_path, format):
    """Segyio reads every sample, label and header that `create` wrote; the array of the caller is unchanged."""
    code = position_code() if format in FLOATS else np.arange(60.0).reshape(3, 4, 5)
    kept = code.copy()
    times = 100 + 2.0 * np.arange(N_SAMPLES)
    with segy_write.create(
        tmp_path / "a.sgy", INLINES, CROSSLINES, times, bin_size=(12.5, 30.0), text="What\nit is", format=format
    ) as write:
        for row in (2, 0, 1):
            write(row, code[row])
    np.testing.assert_array_equal(code, kept)
    with segyio.open(str(tmp_path / "a.sgy")) as file:
        np.testing.assert_allclose(segyio.tools.cube(file), code, atol=1e-5)
        assert file.ilines.tolist() == INLINES.tolist() and file.xlines.tolist() == CROSSLINES.tolist()
        assert file.samples.tolist() == times.tolist() and segyio.tools.dt(file) == 2000
        assert file.text[0].decode("ascii").startswith("C 1 What")
    geometry = segy.scan(tmp_path / "a.sgy")
    np.testing.assert_allclose(read_all(geometry), code, atol=1e-5)
    assert geometry.bin_size == (12.5, 30.0) and geometry.samples.tolist() == times.tolist()
    assert geometry.text.splitlines()[1] == "C 2 it is" and not geometry.notes


def test_a_failed_write_keeps_the_old_file(tmp_path):
    """After an exception, a missing line or a wrong shape, the old file is kept and the new one removed."""
    path = tmp_path / "a.sgy"
    path.write_text("old")
    with pytest.raises(RuntimeError), segy_write.create(path, INLINES, CROSSLINES, np.arange(5.0)) as write:
        write(0, np.zeros((4, 5)))
        raise RuntimeError
    with (
        pytest.raises(ValueError, match="2 of 3 inlines"),
        segy_write.create(path, INLINES, CROSSLINES, np.arange(5.0)) as write,
    ):
        write(0, np.zeros((4, 5)))
    with (
        pytest.raises(ValueError, match="shape"),
        segy_write.create(path, INLINES, CROSSLINES, np.arange(5.0)) as write,
    ):
        write(0, np.zeros((5, 4)))
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.sgy"]


@pytest.mark.parametrize("times", [[0.0, 4.0, 9.0], [0.5, 1.5], [0.0, 70.0], np.arange(70000.0)])
def test_times_that_headers_cannot_hold_are_refused(tmp_path, times):
    """For uneven, fractional, too coarse or too many times no file is written."""
    with pytest.raises(ValueError, match="do not fit SEG-Y"), segy_write.create(tmp_path / "a.sgy", [1], [1], times):
        pass
    assert not os.listdir(tmp_path)


def test_nan_traces_are_written_as_dead_and_read_as_nan(tmp_path):
    """Missing traces are kept in integer formats, which have no NaN, because they are marked dead."""
    section = np.arange(20.0).reshape(4, 5)
    section[2] = np.nan
    with segy_write.create(tmp_path / "a.sgy", [1], CROSSLINES, np.arange(5.0), format=8) as write:
        write(0, section)
    np.testing.assert_array_equal(read_all(segy.scan(tmp_path / "a.sgy"))[0], section)


@pytest.mark.parametrize("endian", ["big", "little"])
@pytest.mark.parametrize("order", ["inline", "crossline", "shuffled"])
def test_create_like_copies_the_headers_byte_for_byte(tmp_path, endian, order):
    """Headers differ only in format and text; every trace, also a duplicate, has the samples of its position."""
    order = np.append(in_order(order), 3)
    source = write_by_segyio(tmp_path / "a.sgy", position_code(), format=1, endian=endian, order=order)
    geometry = segy.scan(source)
    labels = np.arange(60).reshape(3, 4, 5)
    with segy_write.create_like(tmp_path / "b.sgy", geometry, text="Labels", format=8) as write:
        for row in range(3):
            write(row, labels[row])
    old, new = source.read_bytes(), (tmp_path / "b.sgy").read_bytes()
    assert {i for i in range(3200, 3600) if old[i] != new[i]} <= {3224, 3225}
    assert len(new) == 3600 + 13 * (240 + 5)
    for number, place in enumerate(order):
        trace = new[3600 + number * 245 :][:245]
        assert trace[:240] == old[3600 + number * 260 :][:240]
        assert list(trace[240:]) == labels.reshape(12, 5)[place].tolist()
    np.testing.assert_array_equal(read_all(segy.scan(tmp_path / "b.sgy")), labels)


def test_a_class_table_keeps_codes_and_names(tmp_path):
    """Names with quotes, accents and backslashes are read back by code; a malformed table is refused."""
    classes = ["fault", 'salt "dome"', "Störung", "a\\b"]
    class_table.write_class_table(tmp_path / "a.sgy", classes)
    assert class_table.read_class_table(tmp_path / "a.sgy") == classes
    assert class_table.read_class_table(tmp_path / "b.sgy") == []
    (tmp_path / "a.sgy.classes.toml").write_text("[classes]\n3 = 'fault'\n1 = 'other'")
    assert class_table.read_class_table(tmp_path / "a.sgy") == ["other", "code 2", "fault"]
    for nonsense in ("1 = 'fault'", "[classes]", "[classes]\nfault = 1", "classes = 3", "[", "\x00"):
        (tmp_path / "a.sgy.classes.toml").write_text(nonsense)
        with pytest.raises(ValueError, match="class table"):
            class_table.read_class_table(tmp_path / "a.sgy")


@pytest.mark.skipif("OUTCROP_DATA" not in os.environ, reason="OUTCROP_DATA does not name the folder of real data")
@pytest.mark.parametrize(
    ("name", "shape", "first"),
    [
        ("f3_inlines_110_111.sgy", (2, 951, 462), (110, 300)),
        ("f3.sgy", (23, 18, 75), (111, 875)),
        ("f3-lsb.sgy", (23, 18, 75), (111, 875)),
    ],
)
def test_real_files_agree_with_segyio_trace_by_trace(name, shape, first):
    """F3 has its axes, bins of 25 m, samples every 4 ms from 4 ms, and the samples that segyio reads."""
    path = Path(os.environ["OUTCROP_DATA"], "segy", name)
    geometry = segy.scan(path)
    volume = read_all(geometry)
    assert volume.shape == shape and (geometry.inlines[0], geometry.crosslines[0]) == first
    assert geometry.bin_size == (25.0, 25.0) and geometry.samples[:2].tolist() == [4, 8]
    with segyio.open(str(path), ignore_geometry=True, endian=segy_headers.ENDIANS[geometry.layout.order]) as file:
        for number, header in enumerate(file.header):
            row, column = header[189] - first[0], header[193] - first[1]
            assert geometry.traces[row, column] == number
            np.testing.assert_array_equal(volume[row, column], file.trace[number])
