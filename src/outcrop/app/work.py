"""Work in threads: one task that the interpreter waits for, one that goes on behind, and what follows every click."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Cancelled(Exception):
    """The interpreter stopped the work."""


class Work:
    """The tasks of a session.

    Parameters
    ----------
    tell : callable
        Called with "work" whenever a task has moved on or ended.

    Attributes
    ----------
    task, behind : Task or None
        What runs in front and behind, or ran last.
    message : str
        A sentence for the interpreter, shown when nothing runs.
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
        """Tasks that run, the one in front first."""
        return [task for task in (self.task, self.behind) if task and task.alive]

    @property
    def busy(self) -> bool:
        """Whether the interpreter waits for something."""
        return bool(self.task and self.task.alive)

    def say(self, message: str, *, wrong: bool = False) -> None:
        """Show a sentence."""
        self.message, self.wrong = message, wrong
        self.tell("work")

    def forget(self) -> None:
        """Drop the sentence: it was about what was before."""
        self.message, self.wrong = "", False

    def start(self, title: str, function: Callable[..., object], *arguments: Any) -> "Task":
        """Run ``function(task, *arguments)`` in a thread; one at a time."""
        with self._lock:
            if self.task and self.task.alive:
                raise ValueError(f"Still {self.task.title}; wait for it or cancel it.")
            self.task = Task(title, self, function, *arguments)
        self.tell("work")
        return self.task

    def start_behind(self, title: str, function: Callable[["Task"], object]) -> None:
        """Run ``function(task)`` behind the work in hand, unless something does already."""
        with self._lock:
            if not (self.behind and self.behind.alive):
                self.behind = Task(title, self, function)

    def cancel(self) -> None:
        """Stop the work in hand; what it has finished stays."""
        for task in self.alive[:1]:
            task.cancelled = True

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the work in hand, and raise what went wrong in it."""
        if self.task:
            self.task.thread.join(timeout)
            if self.task.error:
                raise self.task.error

    def close(self) -> None:
        """Stop everything."""
        for task in self.alive:
            task.cancelled = True
            task.thread.join()


class Task:
    """Work in a thread that tells how far it is and can be cancelled; it begins at once."""

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
        self.alive = False  # before the pages look
        self._work.tell("work")

    def progress(self, done: int, total: int | None = None) -> None:
        """Tell how much is done; stops the work where it was cancelled."""
        self.done, self.total = done, self.total if total is None else total
        if self.cancelled:
            raise Cancelled
        if time.monotonic() - self._last_shown > 0.2:
            self._last_shown = time.monotonic()
            self._work.tell("work")

    def progress_behind(self, done: int) -> None:
        """Tell how much is done, after what the interpreter waits for."""
        while self._work.busy and not self.cancelled:
            time.sleep(0.05)
        self.progress(done)

    def stage(self, title: str, done: int = 0, total: int = 0) -> None:
        """Tell of a part of the work and how much of it is done, as a `Job` does."""
        self.title = title
        self.progress(done, total)


class Latest:
    """A function that runs in a thread after every change: for the newest one, not once for each.

    Parameters
    ----------
    function : callable
        Without arguments; it reads the state of the moment.

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
        """Whether it runs."""
        return self._thread is not None

    def request(self) -> None:
        """Run it soon; returns at once."""
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
        """Wait until it has caught up."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)


class Last:
    """A value that is made again only where what it is made from changed.

    Examples
    --------
    >>> last = Last()
    >>> last.get("a", lambda: 1), last.get("a", lambda: 2), last.get("b", lambda: 3)
    (1, 1, 3)
    """

    def __init__(self) -> None:
        self._known: tuple[Any, Any] = (object(), None)  # equal to nothing

    def get(self, key: Any, make: Callable[[], T]) -> T:
        """The value of a key."""
        known = self._known
        if known[0] != key:
            known = self._known = (key, make())
        value: T = known[1]
        return value
