"""Draw docs/rooms.svg: the rooms of the package in the order of the data, with their modules.

Run ``python tools/rooms.py`` after a room or a module was added; a test compares the picture with the tree.
"""

import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "outcrop"
PICTURE = ROOT / "docs" / "rooms.svg"
# one list per row of the picture, top row first; rooms import only from lower rows
ROWS = [
    ["cli", "app", "experiments", "demo"],
    ["job"],
    ["evaluate", "plots", "export", "report", "train"],
    ["labels", "geometry"],
    ["retrieval", "mapping"],
    ["features", "measures"],
    ["volumes", "datasets", "patches"],
    ["arrays", "parallel", "storage", "words"],
]
NAMES = [
    "user interfaces and experiments",
    "jobs: decisions, stages, the job folder",
    "scores, figures, files, nets",
    "labels of samples, faults and geobodies",
    "weak labels, then scores of samples",
    "features of patches and sections",
    "volumes and patches",
    "arrays, threads, files, words",
]
WIDTH, LEFT, PAD, LINE = 980, 12, 8, 15


def modules(room):
    """Return the names of the modules of a room; an empty list for a single file."""
    return sorted(path.stem for path in (PACKAGE / room).glob("*.py") if not path.stem.startswith("__"))


def box(x, y, width, height, room, lines):
    """Return a rounded SVG box with the name of a room and its modules."""
    text = [f'<text x="{x + PAD}" y="{y + 18}" class="room">{escape(room)}</text>']
    text += [
        f'<text x="{x + PAD}" y="{y + 18 + LINE * i}" class="module">{escape(line)}</text>'
        for i, line in enumerate(lines, 1)
    ]
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>' + "".join(text)


def drawing():
    """Return the picture as SVG text."""
    parts, y = [], 10
    for rooms, name in zip(ROWS, NAMES, strict=True):
        weights = [max(3, len(modules(room))) ** 0.6 for room in rooms]
        room_widths = [(WIDTH - PAD * (len(rooms) - 1)) * weight / sum(weights) for weight in weights]
        texts = [
            textwrap.wrap(", ".join(modules(room)), max(12, int(width / 6.6)))
            for room, width in zip(rooms, room_widths, strict=True)
        ]
        height, x = 28 + LINE * max(map(len, texts)), float(LEFT)
        parts.append(f'<text x="{LEFT}" y="{y + 12}" class="row">{escape(name)}</text>')
        y += 18
        for room, width, lines in zip(rooms, room_widths, texts, strict=True):
            parts.append(box(round(x), y, round(width), height, room, lines))
            x += width + PAD
        y += height + 12
    style = (
        "rect{fill:#eef3f7;stroke:#546e7a}text{font-family:sans-serif;fill:#263238}"
        ".room{font-size:14px;font-weight:bold}.module{font-size:12px}.row{font-size:12px;fill:#607d8b}"
    )
    size = f'viewBox="0 0 {WIDTH + 2 * LEFT} {y}" width="{WIDTH + 2 * LEFT}" height="{y}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>\n' + "\n".join(parts) + "\n</svg>\n"


if __name__ == "__main__":
    PICTURE.write_text(drawing(), encoding="utf-8")
