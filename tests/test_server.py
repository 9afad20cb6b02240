"""The server of the page refuses what does not come from the page itself."""

import asyncio
import contextlib
import http.client
import io
import json
import os
import re
import socket
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from bokeh.util.token import generate_jwt_token, generate_session_id, get_token_payload
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClosedError, websocket_connect

import outcrop as oc

pytest.importorskip("panel")
from outcrop.app.server import Address, free_port


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    """The page of a small array, served by a thread."""
    values = np.random.default_rng(0).standard_normal((4, 60, 60)).astype("f4")
    one = oc.explore(oc.open_volume(values), job=tmp_path_factory.mktemp("job") / "a.outcrop", size=32)
    yield one
    one.close()


def ask(explorer, path, *, method="GET", body=None, **headers):
    """Status and body of a request, whose path is sent as it is."""
    host = explorer.address.split("/")[2]
    connection = http.client.HTTPConnection(host, timeout=20)
    try:
        connection.request(method, path, body=body, headers={"Host": host} | headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


def home(explorer):
    """Path of the page, with its token."""
    return "/" + explorer.address.split("/", 3)[3]


def test_the_page_needs_its_token(explorer):
    """With the token everything answers; without it, or with another, nothing does, not even the scripts."""
    assert ask(explorer, home(explorer))[0] == 200
    assert ask(explorer, home(explorer) + "static/js/bokeh.min.js")[0] == 200
    token = home(explorer).strip("/")
    for path in (
        "/",
        "/static/js/bokeh.min.js",
        "/ws",
        f"/{token[:-1]}{'y' if token[-1] == 'x' else 'x'}/",
        f"/{token}",
        "/favicon.ico",
        "//" + token,
    ):
        assert ask(explorer, path)[0] == 403
    assert len(token) >= 32


def test_without_the_extra_it_says_what_to_install():
    """One line names the extra, whichever of its packages is missing; nothing else of Outcrop needs it."""
    for package in ("panel", "tornado", "bokeh"):
        code = f"import sys; sys.modules[{package!r}] = None; import outcrop; outcrop.LabelMapper(); outcrop.explore"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.stderr.splitlines()[-1].endswith("run pip install 'outcrop[app]'.")


def test_it_listens_on_loopback_only(explorer):
    """The address is 127.0.0.1, and so is the socket."""
    assert explorer.address.startswith("http://127.0.0.1:")
    sockets = explorer._server._http._sockets.values()
    assert {one.getsockname()[0] for one in sockets} == {"127.0.0.1"}


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil.example"]
)
def test_a_foreign_origin_is_refused(explorer, origin):
    """Pages from elsewhere get nothing, even with the token."""
    assert ask(explorer, home(explorer), Origin=origin)[0] == 403


def test_a_foreign_host_is_refused(explorer):
    """A name that was made to point here (DNS rebinding) does not open the page."""
    assert ask(explorer, home(explorer), Host="evil.example")[0] == 403


@pytest.mark.parametrize(
    "path",
    ["../../../../etc/passwd", "static/../../../../etc/passwd", "static/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
     "static/extensions/panel/..%2f..%2f..%2f..%2fetc/passwd", "static//etc/passwd", "export/labels.sgy", "view.json",
     "components/outcrop.app.components/Cards/_esm/../../../etc/passwd"],
)  # fmt: skip
def test_no_path_leads_to_files(explorer, path):
    """Paths that climb out, or name files of the job, find nothing."""
    status, body = ask(explorer, home(explorer) + path)
    assert status in (400, 403, 404) and "root:" not in body and "decisions" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_uploaded(explorer, method):
    """Only reading is allowed over HTTP."""
    assert ask(explorer, home(explorer), method=method, body="x" * 10)[0] == 405


def test_oversized_requests_are_refused(explorer):
    """A large body, a long header and a large message end the connection, and the server lives on."""
    assert ask(explorer, home(explorer), body="x" * 1000)[0] == 413
    for options in ({"body": b"x" * (3 << 20)}, {"X-Long": "x" * 100_000}):
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            assert ask(explorer, home(explorer), **options)[0] in (400, 413, 431)
    assert asyncio.run(send(explorer, "x" * (2 << 20))) in (1009, None)  # None: cut before the reason came through
    assert ask(explorer, home(explorer))[0] == 200


async def page_token(explorer):
    """Token of a new page, with which its websocket is opened."""
    body = await asyncio.to_thread(lambda: ask(explorer, home(explorer))[1])
    return re.search(r'"token":"([^"]+)"', body)[1]


async def send(explorer, message, *, origin=None):
    """Open the websocket as the page does, send a message, and say with which code it was closed."""
    token = await page_token(explorer)
    host = explorer.address.split("/")[2]
    request = HTTPRequest(f"ws://{host}{home(explorer)}ws", headers={"Origin": origin or f"http://{host}"})
    socket = await websocket_connect(request, subprotocols=["bokeh", token])
    with contextlib.suppress(WebSocketClosedError):  # refused before all of it was sent
        await socket.write_message(message)
    while await asyncio.wait_for(socket.read_message(), 20) is not None:
        pass
    code = socket.close_code
    socket.close()
    return code


def test_a_foreign_page_cannot_open_the_websocket(explorer):
    """Neither with the token of the address nor with that of a page."""
    with pytest.raises(HTTPClientError, match="403"):
        asyncio.run(send(explorer, "x", origin="http://evil.example"))


async def pulled(explorer):
    """Document that the websocket gives where the page that was asked for has expired meanwhile."""
    payload = get_token_payload(await page_token(explorer))
    payload.pop("session_expiry")
    token = generate_jwt_token(generate_session_id(), extra_payload=payload)  # of no session that the server has
    host = explorer.address.split("/")[2]
    request = HTTPRequest(f"ws://{host}{home(explorer)}ws", headers={"Origin": f"http://{host}"})
    socket = await websocket_connect(request, subprotocols=["bokeh", token])
    for _ in range(3):  # header, metadata and content of the first message
        await asyncio.wait_for(socket.read_message(), 30)
    for part in ({"msgid": "1", "msgtype": "PULL-DOC-REQ"}, {}, {}):
        await socket.write_message(json.dumps(part))
    parts = ""
    while "PULL-DOC-REPLY" not in parts or '"roots"' not in parts:
        found = await asyncio.wait_for(socket.read_message(), 30)
        parts += found if isinstance(found, str) else ""
    socket.close()
    return parts


def test_no_page_names_another_computer(explorer):
    """Neither the page, nor a document that is made for the websocket alone."""
    for text in (ask(explorer, home(explorer))[1], asyncio.run(pulled(explorer))):
        assert "static/extensions/panel/" in text
        assert not re.findall(r"https?://[\w.-]*holoviz[\w./@-]*", text)


def test_the_browser_may_ask_no_other_computer(explorer):
    """Every answer carries a policy that names this server alone; asking whether it lives makes no page."""
    host = explorer.address.split("/")[2]
    before = len(explorer._server.get_sessions())
    for path, status in ((home(explorer) + "alive", 204), ("/alive", 403)):
        connection = http.client.HTTPConnection(host, timeout=20)
        connection.request("GET", path)
        answer = connection.getresponse()
        policy = answer.headers["Content-Security-Policy"]
        assert answer.status == status and policy.startswith("default-src 'self'")
        assert set(re.findall(r"ws://([^ ;]+)", policy)) == {host} and "http" not in policy
        connection.close()
    assert len(explorer._server.get_sessions()) == before


def test_the_cell_of_a_notebook_shows_the_page(explorer):
    """What Jupyter shows is a frame with the address, which holds no other host."""
    frame = explorer._repr_html_()
    assert re.findall(r"https?://[^/\"]+", frame) == [explorer.address.rsplit("/", 2)[0]]


def test_only_what_lies_in_the_folder_can_be_chosen(tmp_path):
    """A choice names something of the folder; a path out of it is refused."""
    from outcrop.app.server import Desk

    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", np.random.default_rng(0).random((3, 60, 60)))
    np.save(tmp_path / "b.npy", np.zeros((3, 60, 60)))
    desk = Desk(folder=tmp_path / "in", size=32)
    for name in ("../b.npy", str(tmp_path / "b.npy"), "b.npy", ""):
        with pytest.raises(ValueError, match="not among"):
            desk.begin(name, "b")
        with pytest.raises(ValueError, match="not among"):
            desk.find(name)
    with pytest.raises(ValueError, match="not a plain job name"):
        desk.begin("a.npy", "../a")
    assert desk.begin("a.npy", "mine") == "mine.outcrop"
    assert desk.find("mine.outcrop").survey.volume.shape == (3, 60, 60)
    assert desk.find("mine.outcrop").path == tmp_path / "in" / "mine.outcrop"
    desk.close()


def test_a_volume_without_amplitudes_is_refused_without_a_job(tmp_path):
    """All NaN, or all zeros, says so and makes no folder; one sample with an amplitude is enough."""
    from outcrop.app.server import Desk

    desk, volume = Desk(folder=tmp_path, size=32), np.full((20, 60, 60), np.nan, np.float32)
    for name, value in (("nan", np.nan), ("zero", 0)):
        volume[:] = value
        np.save(tmp_path / f"{name}.npy", volume)
        with pytest.raises(ValueError, match="only zeros or NaN"):
            desk.begin(f"{name}.npy", name)
        assert not (tmp_path / f"{name}.outcrop").exists()
    volume[18, 30, 30] = 1
    np.save(tmp_path / "some.npy", volume)
    assert desk.begin("some.npy", "some") == "some.outcrop"
    desk.close()


def test_only_what_a_job_offers_is_downloaded(tmp_path):
    """Exports come as they are, a folder as a zip file; decisions, other jobs and paths find nothing."""
    volume = oc.open_volume(np.random.default_rng(0).random((3, 60, 60)))
    explorer = oc.explore(volume, job=tmp_path / "a.outcrop", size=32)
    folder = tmp_path / "a.outcrop" / "export"
    (folder / "labels.zarr").mkdir(parents=True)
    (folder / "labels.sgy").write_bytes(b"labels")
    (folder / "labels.zarr" / "c0").write_bytes(b"chunk")
    found = home(explorer) + "download/a.outcrop/"
    assert ask(explorer, found + "labels.sgy") == (200, "labels")
    with contextlib.closing(http.client.HTTPConnection(explorer.address.split("/")[2])) as connection:
        connection.request("GET", found + "labels.zarr.zip")
        with connection.getresponse() as answer:
            archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    assert {one: archive.read(one) for one in archive.namelist()} == {"labels.zarr/c0": b"chunk"}
    for name in ("view.json", "labels.zarr", "..%2fjob.toml", "export%2flabels.sgy", "%2e%2e"):
        assert ask(explorer, found + name)[0] == 404
    assert ask(explorer, home(explorer) + "download/b.outcrop/labels.sgy")[0] == 404
    explorer.close()


def test_a_restart_keeps_the_address_for_this_user_alone(tmp_path, monkeypatch):
    """The address of a job is remembered outside the job folder, readable by its user only, and not given twice."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    job, host = tmp_path / "a.outcrop", "127.0.0.1"
    job.mkdir()
    first = Address(job, host)
    assert (first.port, first.token) == (0, None)
    port, token = free_port(host), "x" * 32
    first.keep(f"http://{host}:{port}/{token}/")
    again = Address(job, host)
    assert (again.port, again.token) == (port, token)
    assert Address(tmp_path / "b.outcrop", host).token is None and not list(job.iterdir())
    (file,) = (tmp_path / "state" / "outcrop").iterdir()
    if os.name == "posix":
        assert file.stat().st_mode & 0o077 == 0
    with socket.socket() as other:
        other.bind((host, port))
        other.listen()
        second, free = Address(job, host), free_port(host)
        assert (second.port, second.token) == (0, None)
        second.keep(f"http://{host}:{free}/{'y' * 32}/")
        again = Address(job, host)  # a second server of the job has its own address, after a restart too
        assert (again.port, again.token) == (free, "y" * 32)
    assert Address(job, host).token == token  # the first one keeps its place
    file.write_text("nonsense")
    assert Address(job, host).token is None
