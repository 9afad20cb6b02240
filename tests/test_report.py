"""A report is one self-contained file that shows its content."""

import base64
import io
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import outcrop
from outcrop.plots.figure import new_axes
from outcrop.report import versions, write_report


class Page(HTMLParser):
    """Parser that collects tags with attributes, text, and tags that are still open."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.open = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        """Record a tag."""
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        """Close the innermost tag, which must be this one."""
        assert self.open.pop() == tag

    def handle_data(self, data):
        """Record text."""
        self.text.append(data)


@pytest.fixture
def page(tmp_path):
    """Write a report with every kind of content; return the parsed page."""
    ax = new_axes(figsize=(3, 2))
    ax.plot([1, 2, 3])
    Image.fromarray(np.arange(12, dtype=np.uint8).reshape(3, 4)).save(tmp_path / "a.png")
    (tmp_path / "b.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    table = pd.DataFrame({"class": ["fault", "<b>salt</b>"], "IU": [0.25, np.nan], "pixels": [12345, 7]})
    sections = {
        "Scores & more": ["First line.\nSecond <line>.", table, table.set_index("class")],
        "Pictures": [ax, (ax.figure, "Confidence"), tmp_path / "a.png", (tmp_path / "b.svg", "<drawn>")],
        "Parameters": {"seed": 0, "index": {"size": (99, 99), "clip": 1234.5678, "area": None}, "note": "a <b> c"},
    }
    write_report(tmp_path / "report.html", title="F3 <inline 310>", sections=sections)
    return Page((tmp_path / "report.html").read_text(encoding="utf-8"))


def test_the_page_is_self_contained(page):
    """Every source is data, every link an anchor of the page, and there is no script."""
    for tag, attrs in page.tags:
        assert tag != "script"
        assert attrs.get("src", "data:").startswith("data:")
        assert attrs.get("href", "#").startswith(("#", "data:"))
    style = next(text for text in page.text if "max-width" in text)
    assert "url(" not in style and "@import" not in style
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    assert {attrs["href"][1:] for tag, attrs in page.tags if tag == "a"} == ids
    assert not page.open


def test_pictures_are_embedded_whole(page):
    """Two drawn figures, a PNG and an SVG are unchanged on the page."""
    sources = [attrs["src"] for tag, attrs in page.tags if tag == "img"]
    assert [re.match(r"data:([^;]+)", source)[1] for source in sources] == [*["image/png"] * 3, "image/svg+xml"]
    raw = [base64.b64decode(source.split(",", 1)[1]) for source in sources]
    with Image.open(io.BytesIO(raw[0])) as figure, Image.open(io.BytesIO(raw[2])) as small:
        assert figure.size == (432, 288) and small.size == (4, 3)
    assert raw[3].startswith(b"<svg")
    assert [attrs["alt"] for tag, attrs in page.tags if tag == "img"] == ["", "Confidence", "", "<drawn>"]


def test_tables_parameters_and_versions_are_shown_as_text(page):
    """Markup in names is escaped, decimals are aligned, missing values are dashes, nested names are complete."""
    text = [part.strip() for part in page.text if part.strip()]
    expected = ["F3 <inline 310>", "Scores & more", "First line.\nSecond <line>.", "<b>salt</b>", "0.250", "12345", "–"]
    expected += ["seed", "index.size", "99, 99", "index.clip", "1235", "a <b> c", "Confidence", versions()]
    for shown in expected:
        assert shown in text
    assert text.count("fault") == 2
    assert f"Outcrop {outcrop.__version__}, Python 3." in versions() and "numpy 2" in versions()


def test_a_failed_report_keeps_the_old_one(tmp_path):
    """The error names the item that cannot be shown, and the existing page stays."""
    path = tmp_path / "report.html"
    write_report(path, title="old", sections={})
    before = path.read_bytes()
    with pytest.raises(TypeError, match="cannot show 3"):
        write_report(path, title="new", sections={"a": 3})
    with pytest.raises(ValueError, match=r"a\.txt is not a picture"):
        write_report(path, title="new", sections={"a": Path("a.txt")})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["report.html"]
