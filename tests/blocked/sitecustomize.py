"""Block features of the system in Python processes with this folder on PYTHONPATH.

The environment variable OUTCROP_BLOCKED names them: ``posix``, ``network`` or both.
``posix`` imitates Windows as far as possible on Linux: no `fcntl`, `resource`, `pwd`, `grp`, `termios`, `os.sysconf`
or `os.fork`; processes start by ``spawn``; files that this process has open or mapped cannot be replaced or removed;
folders cannot be replaced; file names that Windows refuses cannot be used. ``network`` lets sockets connect to this
machine only.
"""

import contextlib
import importlib
import os
import sys
import warnings

MODULES = ("fcntl", "grp", "pwd", "resource", "termios")
OTHER_ON_WINDOWS = ("locket", "psutil")  # libraries whose Linux code needs `MODULES`; they keep them
BAD_CHARACTERS = set('<>:"|?*\\') | {chr(i) for i in range(32)}
SYSTEM = ("/proc/", "/sys/", "/dev/")
DASK = "/dask-scratch-space/"  # on Windows, Dask removes its folders in another way
LOOPBACK = ("127.", "::1", "localhost")


def block_posix():
    """Remove modules and functions that Windows lacks, and refuse file operations that Windows refuses."""
    import multiprocessing

    for name in OTHER_ON_WINDOWS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # an import raises ImportError
    real = os.sysconf

    def sysconf(name):
        """Return the value to psutil, whose Linux code needs it; raise an error for other callers."""
        if sys._getframe(1).f_globals.get("__name__", "").startswith("psutil"):
            return real(name)
        raise AttributeError("module 'os' has no attribute 'sysconf'")

    os.sysconf = sysconf
    del os.fork
    multiprocessing.set_start_method("spawn")
    with warnings.catch_warnings(action="ignore"):  # warns that it uses a weaker kind of lock
        import filelock  # noqa: F401
    sys.addaudithook(refuse_file)


def refuse_file(event, arguments):
    """Refuse to move or remove open files, and to make files with names that Windows does not allow."""
    if event == "os.rename":
        refuse_held(*arguments[:2])
        if is_users(arguments[1]) and os.path.isdir(arguments[1]):
            raise PermissionError(13, "Windows replaces no folder", os.fspath(arguments[1]))
    elif event in ("os.remove", "os.rmdir"):
        refuse_held(arguments[0])
    elif event == "os.mkdir" or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)):
        path = arguments[0]
        if is_users(path) and is_bad(os.path.basename(os.fspath(path).rstrip("/"))):
            raise OSError(22, "Windows refuses this name", os.fspath(path))


def is_users(path):
    """Return whether a value is a path on the user's disk."""
    if not isinstance(path, (str, os.PathLike)):
        return False
    path = os.path.abspath(path)
    return not path.startswith(SYSTEM) and DASK not in path


def is_bad(name):
    """Return whether Windows refuses a file name."""
    return bool(BAD_CHARACTERS & set(name)) or (name not in (".", "..") and name.endswith((".", " ")))


def refuse_held(*paths):
    """Refuse to replace or remove a file that this process has open or mapped, or a folder with such a file."""
    for path in filter(is_users, paths):
        folder, name = os.path.split(os.path.abspath(path))
        whole = os.path.join(os.path.realpath(folder), name)
        for held in open_files():
            if (held == whole or held.startswith(whole + "/")) and not held.endswith(" (deleted)"):
                raise PermissionError(13, "It is open in this process", held)


def open_files():
    """Yield the paths of files that this process has open or mapped."""
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            yield os.readlink(f"/proc/self/fd/{number}")
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            yield "".join(line.rstrip("\n").split(maxsplit=5)[5:])


def refuse_network(event, arguments):
    """Refuse connections to other machines, and look-ups of their addresses."""
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        if isinstance(address, tuple) and not str(address[0]).startswith(LOOPBACK):
            raise PermissionError(f"The network is blocked: {event} to {address}")
    elif event == "socket.getaddrinfo":
        host = arguments[0]
        if host not in (None, "", "0.0.0.0", "::") and not str(host).startswith(LOOPBACK):
            raise PermissionError(f"The network is blocked: look-up of the address of {host}")


BLOCKED = os.environ.get("OUTCROP_BLOCKED", "").split(",")
if "posix" in BLOCKED:
    block_posix()
if "network" in BLOCKED:
    sys.addaudithook(refuse_network)
