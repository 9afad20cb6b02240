"""The web server of the page.

By default it accepts connections from this computer only. It refuses requests without its token, the secret part of
the address.
"""

import asyncio
import contextlib
import os
import re
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from outcrop.app.session import Session
from outcrop.storage.stages import digest

try:
    import panel as pn
    from bokeh.settings import settings
    from panel.io.resources import BASE_TEMPLATE, LOCAL_DIST
    from panel.io.server import get_server
    from tornado.routing import Router
    from tornado.web import Application, RequestHandler

    from outcrop.app.downloads import WAY, Download
    from outcrop.app.page import Page
    from outcrop.app.start import checked_job, jobs_in, start_screen, volumes_in
except ImportError as error:
    raise ImportError("The page needs Panel and Bokeh; run pip install 'outcrop[app]'.") from error

OPENING = (Path(__file__).parent / "opening.js").read_text(encoding="utf-8")
TEMPLATE = BASE_TEMPLATE.environment.from_string(
    '{% extends "base.html" %}{% block preamble %}{{ super() }}<script>'
    "window.outcropJob = {{ (outcrop_job or '') | tojson }}; {% raw %}"
    + OPENING
    + "{% endraw %}</script>{% endblock %}"
)
SWITCH = 0.001  # seconds between switches of threads, so that computing threads do not delay clicks
MOST_BYTES = 1 << 20  # largest size of a request or message; a long brush stroke has about ten thousand bytes
MOST_SERVERS = 20  # number of servers of one job whose addresses are stored
LOOPBACK = ("127.0.0.1", "localhost")
UNUSED = 20_000  # milliseconds that a page waits for the browser; after it, the server would build the page again
ALIVE = ("alive", "favicon.ico")  # the gate itself answers these requests


class Refusal(RequestHandler):
    """A request handler that answers every request with a given HTTP status and without content."""

    def initialize(self, status: int) -> None:
        """Store the HTTP status."""
        self._status_of_refusal = status

    def prepare(self) -> None:
        """Answer every request with the stored HTTP status."""
        self.set_status(self._status_of_refusal)
        self.finish()


class Gate(Router):
    """A router that passes on only requests that have the token and come from the page itself.

    The token is a secret word, the first part of the path of every address. It therefore protects scripts and the
    websocket too, and it works in a cell of a notebook, where a browser sends no cookies. Every answer forbids the
    browser to contact other computers.
    """

    def __init__(self, application: Any, token: str, hosts: Sequence[str]) -> None:
        self.application, self.prefix, self.hosts = application, f"/{token}/", hosts
        self._refusals = Application([])

    def find_handler(self, request: Any, **_: Any) -> Any:
        """Return the handler that answers a request: that of the page, or `Refusal`."""
        status = self.refusal(request)
        self._forbid_others(request)
        if status is None:
            return self.application.find_handler(request)
        return self._refusals.get_handler_delegate(request, Refusal, {"status": status})

    def refusal(self, request: Any) -> int | None:
        """Return the HTTP status with which the gate itself answers a request; None if it passes the request on.

        Status 204 answers the question whether the server runs; any other status refuses the request.
        """
        known = request.path[: len(self.prefix)].encode()
        if not secrets.compare_digest(known, self.prefix.encode()):
            return 403
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        if self.hosts and host not in self.hosts:
            return 403
        if origin is not None and origin.partition("://")[2] != host:
            return 403
        if request.method not in ("GET", "HEAD"):
            return 405  # nothing can be uploaded
        if request.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in request.headers:
            return 413
        return 204 if request.path in [self.prefix + name for name in ALIVE] else None

    def _forbid_others(self, request: Any) -> None:
        """Add a content security policy to the answer: the browser may connect to this server only."""
        host, write = request.headers.get("Host", ""), request.connection.write_headers
        allowed = ["'self'", "'unsafe-inline'", "'unsafe-eval'", "data:", "blob:"]
        if re.fullmatch(r"[\w.:\[\]-]+", host):
            allowed += [f"ws://{host}", f"wss://{host}"]

        def write_headers(start_line: Any, headers: Any, *arguments: Any, **options: Any) -> Any:
            headers["Content-Security-Policy"] = f"default-src {' '.join(allowed)}"
            return write(start_line, headers, *arguments, **options)

        request.connection.write_headers = write_headers


def make_server(desk: "Desk", *, port: int = 0, host: str = "127.0.0.1", token: str | None = None) -> tuple[Any, str]:
    """Make the server of the pages of a `Desk` without starting it; return (server, address of the page).

    Parameters
    ----------
    desk : Desk
        The pages to serve.
    port : int
        Port to listen on; 0 chooses a free port.
    host : str
        Network address of this computer on which to listen; with the default, only this computer can open the page.
    token : str, optional
        Secret part of the address; random by default.
    """
    token = token or secrets.token_urlsafe(24)
    settings.resources = "server"  # regardless of the environment, scripts and styles come from this server
    try:
        port = port or free_port(host)
        hosts = [f"{name}:{port}" for name in LOOPBACK] if host in LOOPBACK else []
        server = get_server(
            {"/": desk.page}, port=port, address=host, prefix=f"/{token}", title="Outcrop",
            allow_websocket_origin=hosts or ["*"], websocket_max_message_size=MOST_BYTES,
            extra_patterns=[(WAY, Download, {"desk": desk})],
            http_server_kwargs={"max_body_size": MOST_BYTES, "max_header_size": 65536},
            check_unused_sessions_milliseconds=3000, unused_session_lifetime_milliseconds=UNUSED,
        )  # fmt: skip
    except OSError as error:
        raise ValueError(f"Port {port} of {host} cannot be used ({error.strerror}); choose another --port.") from None
    # Bokeh checks origins for the websocket only; the gate checks every request.
    server._http.request_callback = Gate(server._tornado, token, hosts)
    return server, f"http://{host}:{port}/{token}/"


class Desk:
    """The pages that a server shows: one for each open job, and the start screen of a folder.

    An address that ends in ``?job=NAME`` shows the page of a job, one that ends in ``?start`` the start screen. An
    address without such an ending shows the job of `session`, or the start screen if `session` is None.

    Parameters
    ----------
    session : Session, optional
        Session of the job that is open from the start.
    folder : path, optional
        Folder of the start screen; only its jobs and volumes can be opened. None omits the start screen.
    options : dict
        Options for every `Session` that the start screen opens.

    Attributes
    ----------
    sessions : dict
        Name of a job -> its session.
    """

    def __init__(self, session: Session | None = None, *, folder: str | Path | None = ".", **options: Any) -> None:
        self.session, self.options = session, options
        self.folder = None if folder is None else Path(folder).resolve()
        self.sessions = {} if session is None else {session.path.name: session}

    def begin(self, volume: str, name: str) -> str:
        """Open a volume of the folder in a new or existing job; return the name of the job."""
        volumes = [] if self.folder is None else [entry.name for entry in volumes_in(self.folder)]
        if self.folder is None or volume not in volumes:
            raise ValueError(f"{volume!r} is not a volume of this folder; choose one of the volumes below.")
        name = checked_job(name)
        if name not in self.sessions:
            asked = self.options.get("job")
            path = Path(asked) if asked is not None and Path(asked).name == name else self.folder / name
            options = {key: value for key, value in self.options.items() if key != "job"}
            self.sessions[name] = Session(self.folder / volume, path, **options)
        elif self.sessions[name].job.plan.volume["source"] != str(self.folder / volume):
            raise ValueError(f"Job {name} is open on another volume; choose another job name.")
        return name

    def find(self, name: str) -> Session:
        """Return the session of a job of the folder; open it if necessary."""
        if name not in self.sessions:
            if self.folder is None or name not in [entry.name for entry in jobs_in(self.folder)]:
                raise ValueError(f"{name!r} is not a job of this folder; choose one of the jobs below.")
            self.sessions[name] = Session(self.folder / name)
        return self.sessions[name]

    def close(self) -> None:
        """Close all sessions."""
        for session in self.sessions.values():
            session.close()

    def page(self) -> Any:
        """Return the content of a new browser tab: the page of a job, or the start screen."""
        # Panel writes addresses of its CDN into the styles, and replaces them when it answers the request for the page.
        # A document made for the websocket, after the first document expired, has no such request.
        document, problem = pn.state.curdoc, ""
        document._template_variables["dist_url"] = LOCAL_DIST
        document.template = TEMPLATE
        asked = pn.state.session_args
        session = None if "start" in asked and self.folder is not None else self.session
        if "job" in asked:
            try:
                session = self.find(asked["job"][0].decode("utf-8", "replace"))
            except (ValueError, OSError, ImportError) as error:
                session, problem = self.session if self.folder is None else None, str(error)
        if session is None and self.folder is not None:
            job = self.options.get("job")
            return start_screen(self.folder, self.begin, job and Path(job).name, problem)
        assert session is not None  # a desk without a folder has a session
        document._template_variables["outcrop_job"] = session.path.name
        one = Page(session, document, start=self.folder is not None)
        pn.state.on_session_destroyed(lambda _: one.close())
        return one.layout()


def free_port(host: str, port: int = 0) -> int:
    """Return `port` if no program listens on it, else 0; if `port` is 0, return any free port."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(port > 0 and os.name == "posix"))
        try:
            probe.bind((host, port))
        except OSError:
            if not port:
                raise
            return 0
        return int(probe.getsockname()[1])


class Address:
    """The stored address of a job's or folder's server, which lets open tabs continue after a restart of the server.

    The address is stored in a file that only this user can read, outside the job folder, which others may read. Several
    servers of one job have different addresses; a new server uses the first stored address that is free.

    Parameters
    ----------
    path : path
        The job, or the folder of the start screen.
    host : str
        Network address on which the server listens, as in `make_server`.

    Attributes
    ----------
    port : int
        Stored port, 0 if no address is stored.
    token : str or None
        Stored secret part of the address.
    """

    def __init__(self, path: str | Path, host: str) -> None:
        name = digest("address", str(Path(path).resolve()), host)
        state = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".local" / "state"
        for number in range(1, MOST_SERVERS + 1):
            self._path = Path(state) / "outcrop" / f"{name}{f'-{number}' if number > 1 else ''}.txt"
            self.port, self.token = read_address(self._path)
            if not self.port or free_port(host, self.port):
                return
        self.port, self.token = 0, None

    def keep(self, address: str) -> None:
        """Store the address of the running server; if that fails, the next server will have a new address."""
        port, token = urlsplit(address).port, urlsplit(address).path.strip("/")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write(f"{port} {token}\n")


def read_address(path: Path) -> tuple[int, str | None]:
    """Return (port, token) from a file that `Address` wrote; (0, None) if the file holds no address."""
    with contextlib.suppress(OSError, ValueError):
        port, token = path.read_text(encoding="utf-8").split()
        if re.fullmatch(r"[\w-]{20,}", token) and 0 < int(port) < 65536:
            return int(port), token
    return 0, None


def serve(
    source: Any = None, *, port: int = 0, host: str = "127.0.0.1", browser: bool = True,
    ready: Callable[[str], object] = print, **options: Any,
) -> None:  # fmt: skip
    """Serve the page until the program is interrupted.

    Parameters
    ----------
    source : path, optional
        A volume or a job folder; by default the page offers the jobs and volumes of the current folder.
    port, host
        As in `make_server`.
    browser : bool
        Whether to open the page in a browser.
    ready : callable
        Called with the address of the page as soon as the server answers requests.
    options
        Options for `Session`.
    """
    given = None if source is None else Session(source, **options)
    desk = Desk(**options) if given is None else Desk(given, folder=given.path.resolve().parent)
    known = Address(Path.cwd() if given is None else given.path, host)
    server, address = make_server(desk, port=port or known.port, host=host, token=known.token)
    known.keep(address)
    server.start()
    sys.setswitchinterval(SWITCH)

    def announce() -> None:
        ready(address)
        if browser:
            webbrowser.open(address)

    server.io_loop.add_callback(announce)
    try:
        server.io_loop.start()
    finally:
        desk.close()


def explore(
    volume: Any, *, job: str | Path | None = None, size: int | tuple[int, int] | None = None, truth: Any = None,
    height: int = 800,
) -> "Explorer":  # fmt: skip
    """Show the page of a volume in a cell of a notebook.

    Parameters
    ----------
    volume : path or DataArray
        A volume, or a job folder.
    job : path, optional
        Job folder; by default NAME.outcrop in the current folder.
    size : int or (int, int), optional
        Patch size of a new job, in samples and traces.
    truth : path or DataArray, optional
        Expert labels to compare with.
    height : int
        Height of the cell in pixels.

    Returns
    -------
    Explorer
        Jupyter displays it as the page; ``.session`` is the session, ``.address`` opens the page in a browser, and
        ``.close()`` ends it.

    Examples
    --------
    >>> import tempfile
    >>> import outcrop as oc
    >>> volume, _ = oc.datasets.synthetic((2, 64, 80), seed=0)
    >>> page = explore(volume, job=f"{tempfile.mkdtemp()}/survey.outcrop", size=32)
    >>> page.address.startswith("http://127.0.0.1")
    True
    >>> page.close()
    """
    return Explorer(Session(volume, job, size=size, truth=truth), height=height)


class Explorer:
    """A page in a cell of a notebook; a thread of the kernel serves the page to this computer only."""

    def __init__(self, session: Session, *, height: int = 800) -> None:
        self.session, self.height = session, height
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        self._server, self.address = make_server(Desk(self.session, folder=None))
        self._server.start()
        self._server.io_loop.add_callback(started.set)
        self._server.io_loop.start()

    def _repr_html_(self) -> str:
        return (
            f'<iframe src="{self.address}" width="100%" height="{self.height}" style="border: 1px solid #ccc"></iframe>'
        )

    def close(self) -> None:
        """Stop the server of the page; decisions and results stay in the job folder."""
        self._server.io_loop.add_callback(self._server.io_loop.stop)
        self._thread.join()
        self._server.stop()
        self.session.close()
