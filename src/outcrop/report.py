"""Write reports: HTML files that contain the pictures, tables and parameters of a run."""

import base64
import datetime
import html
import io
import numbers
import platform
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

import outcrop
from outcrop.storage.workspace import refuse_volume_name, whole_file

PICTURES = {".png": "image/png", ".svg": "image/svg+xml", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"}

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: #1d2733; background: #fff;
  max-width: 1080px; margin: 0 auto; padding: 2.5rem 1.5rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .8rem; padding-top: 1.2rem; border-top: 1px solid #dde3ea; }
p { max-width: 46rem; margin: .6rem 0; white-space: pre-line; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin: 1rem 0 0; font-size: .95rem; }
a { color: #0b63a5; text-decoration: none; }
a:hover { text-decoration: underline; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .9rem; text-align: left; border-bottom: 1px solid #e6ebf0; vertical-align: top; }
thead th { border-bottom: 2px solid #b9c4cf; white-space: nowrap; }
tbody tr:hover { background: #f5f8fa; }
.number { text-align: right; }
table.facts th { font-weight: 500; color: #51606f; white-space: nowrap; }
figure { margin: 1.2rem 0; }
img { max-width: 100%; height: auto; display: block; }
figcaption, footer, .subtitle { color: #51606f; font-size: .9rem; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid #dde3ea; }
@media print { h2, figure { break-inside: avoid; } nav { display: none; } }
"""


def write_report(path: str | Path, *, title: str, sections: Mapping[str, Any]) -> None:
    """Write a report as one HTML file that contains all its pictures.

    An existing file is replaced only after the new file is complete.

    Parameters
    ----------
    path : path
        File to write.
    title : str
        Title of the page.
    sections : dict
        Heading -> content, one item or a list: text, a DataFrame, a dict of parameters (may be nested), a matplotlib
        figure or axes, the path of a PNG, JPEG or SVG picture, or a pair (picture, caption).

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> scores = pd.DataFrame({"class": ["fault"], "IU": [0.7]})
    >>> write_report(path, title="F3", sections={"Scores": ["Against the expert:", scores]})
    >>> "<h2" in path.read_text()
    True
    """
    links, body = "", ""
    for number, (heading, content) in enumerate(sections.items(), 1):
        anchor, words = f"section-{number}", html.escape(str(heading))
        links += f'<a href="#{anchor}">{words}</a>\n'
        items = content if isinstance(content, list) else [content]
        body += f'<h2 id="{anchor}">{words}</h2>\n{"".join(map(_render, items))}'
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<h1>{html.escape(title)}</h1>
<div class="subtitle">Outcrop {outcrop.__version__}, {now}</div>
<nav>{links}</nav>
{body}<footer>{html.escape(versions())}</footer>
</body>
</html>
"""
    refuse_volume_name(path)
    with whole_file(path) as aside:
        aside.write_text(page, encoding="utf-8")


def versions() -> str:
    """Return the versions of the packages that results depend on, in one line."""
    names = ["numpy", "scipy", "scikit-learn", "xarray", "zarr", "torch"]
    found = {name: _version(name) for name in names}
    packages = ", ".join(f"{name} {version}" for name, version in found.items() if version)
    return f"Outcrop {outcrop.__version__}, Python {platform.python_version()}, {packages}; {platform.platform()}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _render(item: Any) -> str:
    """Return the HTML of one item of a section: a text, table, dict of parameters, or picture."""
    if isinstance(item, pd.DataFrame):
        return _table(item)
    if isinstance(item, Mapping):
        rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{_text(value)}</td></tr>\n" for name, value in _flat(item))
        return f'<div class="scroll"><table class="facts">\n{rows}</table></div>\n'
    if isinstance(item, str):
        return f"<p>{html.escape(item)}</p>\n"
    picture, caption = item if isinstance(item, tuple) else (item, "")
    kind, data, width = _picture(picture)
    caption = html.escape(caption)
    source = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f'<figure><img alt="{caption}"{width} src="{source}">{below}</figure>\n'


def _table(frame: pd.DataFrame) -> str:
    """Return the HTML of a DataFrame, numbers aligned right; an unnamed index of row numbers is left out."""
    if frame.index.name is not None or not isinstance(frame.index, pd.RangeIndex):
        frame = frame.reset_index()
    numeric = [pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind) for kind in frame.dtypes]
    mark = [' class="number"' if right else "" for right in numeric]
    head = "".join(f"<th{style}>{html.escape(str(name))}</th>" for style, name in zip(mark, frame.columns, strict=True))
    columns = [_column(frame.iloc[:, i]) for i in range(frame.shape[1])]
    rows = "".join(
        "<tr>" + "".join(f"<td{style}>{cell}</td>" for style, cell in zip(mark, row, strict=True)) + "</tr>\n"
        for row in zip(*columns, strict=True)
    )
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n'


def _column(values: pd.Series) -> list[str]:
    """Return the texts of the cells of a table column.

    Fractions below 1000 have three decimals, so that their decimal points are aligned.
    """
    if values.dtype.kind == "f" and (values.dropna() % 1 != 0).any() and values.abs().max() < 1000:
        return ["–" if value != value else f"{value:.3f}" for value in values]
    return [_text(value) for value in values]


def _text(value: Any) -> str:
    """Format a value for a reader: four significant digits of a fraction, a dash for a missing value.

    Examples
    --------
    >>> [_text(value) for value in (0.123456, 1234.0, 12, None, float("nan"), (99, 99), "a < b")]
    ['0.1235', '1234', '12', '–', '–', '99, 99', 'a &lt; b']
    """
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "–"
    if pd.isna(value):
        return "–"
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        value = float(value)
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e6 else f"{value:.4g}"
    return html.escape(str(value))


def _flat(mapping: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the name and value of every nested parameter: ``{"index": {"size": 99}}`` yields ``("index.size", 99)``."""
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _picture(picture: Any) -> tuple[str, bytes, str]:
    """Return (media type, bytes, HTML attribute with the width) of a figure, of axes or of a picture file.

    The attribute is empty for a picture file.
    """
    if isinstance(picture, Path):
        if picture.suffix.lower() not in PICTURES:
            raise ValueError(f"{picture} is not a picture for a report; give a file of type {', '.join(PICTURES)}.")
        return PICTURES[picture.suffix.lower()], picture.read_bytes(), ""
    figure = getattr(picture, "figure", picture)
    if not hasattr(figure, "savefig"):
        raise TypeError(f"A report cannot show {picture!r}; give text, a table, parameters, a figure or its path.")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=2 * 72)  # sharp on fine screens and in print
    return "image/png", buffer.getvalue(), f' width="{round(96 * figure.get_figwidth())}"'
