"""Downloads: the files of a job that the page offers, one by one; a folder comes as one zip file."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tornado.web import HTTPError, RequestHandler

CHUNK = 1 << 20  # bytes that are read at a time
TABLES = ("*.csv", "*.png", "*.html")  # of the job folder itself
WAY = r"/download/([^/]+)/([^/]+)"


def downloads_of(job: Path) -> dict[str, Path]:
    """Name -> path of everything that can be downloaded from a job: its exports, tables and pictures."""
    found = [path for pattern in TABLES for path in job.glob(pattern) if path.is_file()]
    found += (job / "export").glob("[!.]*")
    return {name_of(path): path for path in sorted(found)}


def name_of(path: Path) -> str:
    """Name of a download: that of the file, of a folder with .zip."""
    return f"{path.name}.zip" if path.is_dir() else path.name


class Sink:
    """A file for `zipfile` that hands on what was written to it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep bytes until they are taken."""
        self.parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing."""

    def take(self) -> bytes:
        """Return what was written since."""
        parts, self.parts = self.parts, []
        return b"".join(parts)


def chunks(path: Path) -> Iterator[bytes]:
    """Bytes of a file, or of a zip file of all files in a folder, piece by piece."""
    if path.is_file():
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                yield data
        return
    sink = Sink()
    with zipfile.ZipFile(sink, "w") as archive:  # type: ignore[call-overload]
        for one in sorted(path.rglob("*")):
            if one.is_file():
                with archive.open(f"{path.name}/{one.relative_to(path).as_posix()}", "w", force_zip64=True) as out:
                    for data in chunks(one):
                        out.write(data)
                        yield sink.take()
    yield sink.take()


class Download(RequestHandler):
    """Answer with a file that the page of an open job offers; any other name finds nothing."""

    def initialize(self, desk: Any) -> None:
        """Take the desk with its open jobs."""
        self._desk = desk

    async def get(self, job: str, name: str) -> None:
        """Send one file."""
        session = self._desk.sessions.get(job)
        path = downloads_of(session.path).get(name) if session else None
        if path is None:
            raise HTTPError(404)
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Disposition", "attachment")  # the link gives the name
        for data in chunks(path):
            self.write(data)
            await self.flush()
