"""Threads of the page: one foreground task, one background task, and short updates after every click."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Cancelled(Exception):
    """Raised inside a task to end it after the interpreter cancelled it."""


class Work:
    """The foreground task and the background task of a session, and a message to the interpreter.

    Parameters
    ----------
    tell : callable
        Called with the text "work" when a task progressed or ended, or the message changed.

    Attributes
    ----------
    task, behind : Task or None
        The foreground task and the background task, running or ended; None before the first such task.
    message : str
        A sentence for the interpreter, shown while no foreground task runs.
    wrong : bool
        Whether the message reports an error.
    """

    def __init__(self, tell: Callable[[str], object]) -> None:
        self.tell = tell
        self.task: Task | None = None
        self.behind: Task | None = None
        self.message, self.wrong = "", False
        self._lock = threading.Lock()

    @property
    def alive(self) -> list["Task"]:
        """The running tasks, the foreground task first."""
        return [task for task in (self.task, self.behind) if task and task.alive]

    @property
    def busy(self) -> bool:
        """Whether a foreground task is running."""
        return bool(self.task and self.task.alive)

    def say(self, message: str, *, wrong: bool = False) -> None:
        """Show a message to the interpreter; if `wrong` is True, show it as an error."""
        self.message, self.wrong = message, wrong
        self.tell("work")

    def forget(self) -> None:
        """Clear the message to the interpreter."""
        self.message, self.wrong = "", False

    def start(self, title: str, function: Callable[..., object], *arguments: Any) -> "Task":
        """Run ``function(task, *arguments)`` as the foreground task; raise an error if one is already running."""
        with self._lock:
            if self.task and self.task.alive:
                raise ValueError(f"The page is still {self.task.title}; wait until the task ends, or cancel it.")
            self.task = Task(title, self, function, *arguments)
        self.tell("work")
        return self.task

    def start_behind(self, title: str, function: Callable[["Task"], object]) -> None:
        """Run ``function(task)`` as the background task, unless one is already running."""
        with self._lock:
            if not (self.behind and self.behind.alive):
                self.behind = Task(title, self, function)

    def cancel(self) -> None:
        """Cancel the foreground task or, if no such task is running, the background task; finished parts are kept."""
        for task in self.alive[:1]:
            task.cancelled = True

    def wait(self, timeout: float | None = None) -> None:
        """Wait at most `timeout` seconds until the foreground task has ended; raise the error that ended it, if any."""
        if self.task:
            self.task.thread.join(timeout)
            if self.task.error:
                raise self.task.error

    def close(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        for task in self.alive:
            task.cancelled = True
            task.thread.join()


class Task:
    """A task in a thread that reports its progress and can be cancelled; it starts at once."""

    def __init__(self, title: str, work: Work, function: Callable[..., object], *arguments: Any) -> None:
        self.title, self._work = title, work
        self.done, self.total, self.cancelled, self.alive = 0, 0, False, True
        self.error: Exception | None = None
        self._last_shown = 0.0
        work.forget()
        self.thread = threading.Thread(target=self._run, args=(function, arguments), daemon=True)
        self.thread.start()

    def _run(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        try:
            function(self, *arguments)
        except Cancelled:
            self._work.message = f"Cancelled {self.title}."
        except Exception as error:
            self.error = error
            self._work.message, self._work.wrong = str(error), True
        self.alive = False  # set before the pages read it
        self._work.tell("work")

    def progress(self, done: int, total: int | None = None) -> None:
        """Report the progress; raise `Cancelled` if the task was cancelled."""
        self.done, self.total = done, self.total if total is None else total
        if self.cancelled:
            raise Cancelled
        if time.monotonic() - self._last_shown > 0.2:
            self._last_shown = time.monotonic()
            self._work.tell("work")

    def progress_behind(self, done: int) -> None:
        """Wait while a foreground task runs, then report the progress of this background task."""
        while self._work.busy and not self.cancelled:
            time.sleep(0.05)
        self.progress(done)

    def stage(self, title: str, done: int = 0, total: int = 0) -> None:
        """Report the step that the task has reached: its title, and that `done` of its `total` parts are finished."""
        self.title = title
        self.progress(done, total)


class Latest:
    """A function that runs in a thread when requested; all requests during a run together cause one further run.

    Parameters
    ----------
    function : callable
        Function without arguments that reads the present state.

    Examples
    --------
    >>> runs = []
    >>> latest = Latest(lambda: runs.append(time.sleep(0.1)))
    >>> for _ in range(50):
    ...     latest.request()
    >>> latest.wait()
    >>> len(runs) <= 2
    True
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._wanted = False
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether the function is running."""
        return self._thread is not None

    def request(self) -> None:
        """Request a run of the function in a thread; return at once."""
        with self._lock:
            self._wanted = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._thread = None
                    return
                self._wanted = False
            self._function()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until all requested runs are done, at most `timeout` seconds."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)


class Last:
    """A cache of one value, which is computed again only if its key changes; the key stands for the inputs.

    Examples
    --------
    >>> last = Last()
    >>> last.get("a", lambda: 1), last.get("a", lambda: 2), last.get("b", lambda: 3)
    (1, 1, 3)
    """

    def __init__(self) -> None:
        self._known: tuple[Any, Any] = (object(), None)  # equal to nothing

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """Return the last value if the key equals that of the last call; else call `make` and return its value."""
        known = self._known
        if known[0] != key:
            known = self._known = (key, make())
        value: T = known[1]
        return value
