"""Downloads on the page: the files of a job; a folder is sent as one zip file."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tornado.web import HTTPError, RequestHandler

CHUNK = 1 << 20  # bytes per read
TABLES = ("*.csv", "*.png", "*.html")  # in the job folder itself
WAY = r"/download/([^/]+)/([^/]+)"


def downloads_of(job: Path) -> dict[str, Path]:
    """Return a dict: name of a download -> path of an export, a table or a picture in the job folder `job`."""
    found = [path for pattern in TABLES for path in job.glob(pattern) if path.is_file()]
    found += (job / "export").glob("[!.]*")
    return {name_of(path): path for path in sorted(found)}


def name_of(path: Path) -> str:
    """Return the name under which a file or folder is downloaded; the name of a folder gets the ending ``.zip``."""
    return f"{path.name}.zip" if path.is_dir() else path.name


class Sink:
    """A file object for `zipfile` that keeps the written bytes until `take` returns them."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        """Keep bytes for `take`, and return their number."""
        self.parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing; `zipfile` requires that a file object has this method."""

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        parts, self.parts = self.parts, []
        return b"".join(parts)


def chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces; a folder is packed into one zip file."""
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
    """Handler of download requests: sends a file that the page of an open job offers; other names give error 404."""

    def initialize(self, desk: Any) -> None:
        """Store the `Desk` of the server, which holds the open jobs."""
        self._desk = desk

    async def get(self, job: str, name: str) -> None:
        """Send the file or folder `name` of the open job `job`; a folder is sent as a zip file."""
        session = self._desk.sessions.get(job)
        path = downloads_of(session.path).get(name) if session else None
        if path is None:
            raise HTTPError(404)
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Disposition", "attachment")  # the link states the name
        for data in chunks(path):
            self.write(data)
            await self.flush()
