"""The server of the page refuses requests that do not come from the page itself."""

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
    """Yield the page of a small array, served by a thread."""
    values = np.random.default_rng(0).standard_normal((4, 60, 60)).astype("f4")
    one = oc.explore(oc.open_volume(values), job=tmp_path_factory.mktemp("job") / "a.outcrop", size=32)
    yield one
    one.close()


def ask(explorer, path, *, method="GET", body=None, **headers):
    """Send a request with an unchanged path; return status and body."""
    host = explorer.address.split("/")[2]
    connection = http.client.HTTPConnection(host, timeout=20)
    try:
        connection.request(method, path, body=body, headers={"Host": host} | headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


def home(explorer):
    """Return the path of the page, with its token."""
    return "/" + explorer.address.split("/", 3)[3]


def test_the_page_needs_its_token(explorer):
    """Without the token, or with another, every request is refused, also for scripts."""
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


def test_without_the_extra_the_error_states_what_to_install():
    """If any package of the extra is missing, the error names the extra; the other parts of Outcrop work."""
    for package in ("panel", "tornado", "bokeh"):
        code = f"import sys; sys.modules[{package!r}] = None; import outcrop; outcrop.LabelMapper(); outcrop.explore"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.stderr.splitlines()[-1].endswith("run pip install 'outcrop[app]'.")


def test_the_server_listens_on_loopback_only(explorer):
    """Address and socket are on 127.0.0.1."""
    assert explorer.address.startswith("http://127.0.0.1:")
    sockets = explorer._server._http._sockets.values()
    assert {one.getsockname()[0] for one in sockets} == {"127.0.0.1"}


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil.example"]
)
def test_a_foreign_origin_is_refused(explorer, origin):
    """Requests of other pages are refused, even with the token."""
    assert ask(explorer, home(explorer), Origin=origin)[0] == 403


def test_a_foreign_host_is_refused(explorer):
    """Another host name for this address (DNS rebinding) does not open the page."""
    assert ask(explorer, home(explorer), Host="evil.example")[0] == 403


@pytest.mark.parametrize(
    "path",
    ["../../../../etc/passwd", "static/../../../../etc/passwd", "static/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
     "static/extensions/panel/..%2f..%2f..%2f..%2fetc/passwd", "static//etc/passwd", "export/labels.sgy", "view.json",
     "components/outcrop.app.components/Cards/_esm/../../../etc/passwd"],
)  # fmt: skip
def test_no_path_leads_to_files(explorer, path):
    """Paths outside the page, or of files of the job, are not found."""
    status, body = ask(explorer, home(explorer) + path)
    assert status in (400, 403, 404) and "root:" not in body and "decisions" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_uploaded(explorer, method):
    """Only reading is allowed over HTTP."""
    assert ask(explorer, home(explorer), method=method, body="x" * 10)[0] == 405


def test_oversized_requests_are_refused(explorer):
    """A large body, a long header and a large message end the connection; the server continues."""
    assert ask(explorer, home(explorer), body="x" * 1000)[0] == 413
    for options in ({"body": b"x" * (3 << 20)}, {"X-Long": "x" * 100_000}):
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            assert ask(explorer, home(explorer), **options)[0] in (400, 413, 431)
    assert asyncio.run(send(explorer, "x" * (2 << 20))) in (1009, None)  # None: closed before the reason arrived
    assert ask(explorer, home(explorer))[0] == 200


async def page_token(explorer):
    """Return the token of a new page, which opens its websocket."""
    body = await asyncio.to_thread(lambda: ask(explorer, home(explorer))[1])
    return re.search(r'"token":"([^"]+)"', body)[1]


async def send(explorer, message, *, origin=None):
    """Open the websocket like the page, send a message, and return the code with which it was closed."""
    token = await page_token(explorer)
    host = explorer.address.split("/")[2]
    request = HTTPRequest(f"ws://{host}{home(explorer)}ws", headers={"Origin": origin or f"http://{host}"})
    socket = await websocket_connect(request, subprotocols=["bokeh", token])
    with contextlib.suppress(WebSocketClosedError):  # refused before the whole message was sent
        await socket.write_message(message)
    while await asyncio.wait_for(socket.read_message(), 20) is not None:
        pass
    code = socket.close_code
    socket.close()
    return code


def test_a_foreign_page_cannot_open_the_websocket(explorer):
    """A foreign origin is refused, with the token of the address and with the token of a page."""
    with pytest.raises(HTTPClientError, match="403"):
        asyncio.run(send(explorer, "x", origin="http://evil.example"))


async def pulled(explorer):
    """Return the document that the websocket sends if the requested page has expired."""
    payload = get_token_payload(await page_token(explorer))
    payload.pop("session_expiry")
    token = generate_jwt_token(generate_session_id(), extra_payload=payload)  # of an unknown session
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
    while await asyncio.wait_for(socket.read_message(), 30) is not None:  # until it is closed
        pass
    return parts


def test_no_page_names_another_computer(explorer):
    """Neither the page nor a document made for the websocket has addresses of other computers."""
    for text in (ask(explorer, home(explorer))[1], asyncio.run(pulled(explorer))):
        assert "static/extensions/panel/" in text
        assert not re.findall(r"https?://[\w.-]*holoviz[\w./@-]*", text)


def test_the_browser_may_contact_no_other_computer(explorer):
    """Every answer has a policy that allows this server only; a request for "alive" makes no page."""
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
    """Jupyter shows a frame with the address of the page and no other host."""
    frame = explorer._repr_html_()
    assert re.findall(r"https?://[^/\"]+", frame) == [explorer.address.rsplit("/", 2)[0]]


def test_only_jobs_and_volumes_of_the_folder_can_be_opened(tmp_path):
    """Names outside the folder are refused."""
    from outcrop.app.server import Desk

    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", np.random.default_rng(0).random((3, 60, 60)))
    np.save(tmp_path / "b.npy", np.zeros((3, 60, 60)))
    desk = Desk(folder=tmp_path / "in", size=32)
    for name in ("../b.npy", str(tmp_path / "b.npy"), "b.npy", ""):
        with pytest.raises(ValueError, match="not a volume of this folder"):
            desk.begin(name, "b")
        with pytest.raises(ValueError, match="not a job of this folder"):
            desk.find(name)
    with pytest.raises(ValueError, match="not a valid job name"):
        desk.begin("a.npy", "../a")
    assert desk.begin("a.npy", "mine") == "mine.outcrop"
    assert desk.find("mine.outcrop").survey.volume.shape == (3, 60, 60)
    assert desk.find("mine.outcrop").path == tmp_path / "in" / "mine.outcrop"
    desk.close()


def test_a_volume_without_amplitudes_is_refused_without_a_job(tmp_path):
    """A volume of NaN or zeros gives an error and no job; one sample with an amplitude is enough."""
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


def test_only_exports_of_a_job_can_be_downloaded(tmp_path):
    """Exported files are sent unchanged, folders as zip files; other files, jobs and paths are not found."""
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


def test_a_restart_keeps_the_address_readable_by_this_user_only(tmp_path, monkeypatch):
    """The address of a job is stored outside the job folder, readable by its user only, and used by one server."""
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
        again = Address(job, host)  # a second server of the job keeps another address, also after a restart
        assert (again.port, again.token) == (free, "y" * 32)
    assert Address(job, host).token == token  # the first server keeps its address
    file.write_text("nonsense")
    assert Address(job, host).token is None
