"""Says how work is getting on: a live line on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.status import Status

EVERY = 15.0
"""Seconds between two lines where there is no terminal."""


class Progress:
    """An observer of a sweep's progress; this one shows nothing."""

    def start(self, runs: int, work: float, cores: int) -> None:
        """A sweep of so many runs, of so many estimated seconds on one core, begins."""

    def update(self, done: int, failed: int, left: float, waiting: bool) -> None:
        """Report runs done and failed, the seconds of one core left, and if no worker is busy."""

    def note(self, text: str) -> None:
        """Show a line that the user should read."""

    def stage(self, text: str) -> None:
        """Begin a stage that takes a while and is no run; an empty text ends it."""

    def finish(self) -> None:
        """The sweep is over."""


class Pace:
    """Rate and time left, from the work that is thought to be left."""

    def __init__(self, runs: int, work: float, cores: int, now: float) -> None:
        self.runs = runs
        self.cores = max(cores, 1)
        self.started = now
        self._work, self._since = work, now
        """The work left when it last changed, and when that was."""

    def rate(self, done: int, now: float) -> float:
        """Runs per second."""
        return done / max(now - self.started, 1e-9)

    def left(self, work: float, now: float) -> float:
        """Seconds left; runs under way count down until one of them is over."""
        if work != self._work:
            self._work, self._since = work, now
        return max(work / self.cores - (now - self._since), 0.0)

    def text(self, done: int, failed: int, work: float, waiting: bool, now: float) -> str:
        """The progress in a few words."""
        words = [f"{done + failed:,}/{self.runs:,} runs"]
        left = self.left(work, now)
        if failed:
            words.append(f"{failed:,} failed")
        if waiting and done + failed < self.runs:
            words.append("waiting for a worker")
        elif done + failed:
            words.append(f"{self.rate(done + failed, now):.3g} runs/s")
            words.append(f"{duration(left)} left" if left >= 1 else "soon done")
        elif left >= 1:
            words.append(f"about {duration(left)}")
        return ", ".join(words)


class ConsoleProgress(Progress):
    """Progress on standard error."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(file=sys.stderr, highlight=False)
        self._pace = Pace(0, 0.0, 1, 0.0)
        self._bar: Bar | None = None
        self._said = 0.0
        self._last = (0, 0)
        self._stage = ""
        self._stage_began = 0.0
        self._stages_over = threading.Event()
        self._status: Status | None = None

    def start(self, runs: int, work: float, cores: int) -> None:
        """Show the bar, or the first line."""
        self.stage("")
        now = time.monotonic()
        self._pace = Pace(runs, work, cores, now)
        self._said = now
        self._last = (0, 0)
        if self.console.is_terminal:
            columns = (SpinnerColumn(), BarColumn(32), TextColumn("{task.description}"))
            self._bar = Bar(*columns, console=self.console, transient=True)
            self._bar.add_task(self._pace.text(0, 0, work, False, now), total=1.0)
            self._bar.start()
        else:
            left = self._pace.left(work, now)
            about = f", about {duration(left)}" if left >= 1 else ""
            self.note(f"{runs:,} runs to simulate{about} on {cores} core{'s' * (cores != 1)}")

    def update(self, done: int, failed: int, left: float, waiting: bool) -> None:
        """Move the bar; elsewhere say a line from time to time."""
        now = time.monotonic()
        self._last = (done, failed)
        text = self._pace.text(done, failed, left, waiting, now)
        if self._bar is not None:
            past = (now - self._pace.started) * self._pace.cores
            share = past / max(past + left, 1e-9) if done + failed else 0.0
            self._bar.update(self._bar.task_ids[0], completed=share, description=text)
        elif now - self._said >= EVERY:
            self._said = now
            self.note(text)

    def note(self, text: str) -> None:
        """A line of its own."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def stage(self, text: str) -> None:
        """A spinner on a terminal; elsewhere a line for each new stage, and one now and then."""
        if self.console.is_terminal:
            if self._status is None:
                self._status = self.console.status(text)
                self._status.start()
            self._status.update(f"{text} …")
            if not text:
                self._status.stop()
                self._status = None
        elif not text:
            self._stages_over.set()
        else:
            if text.partition(":")[0] != self._stage.partition(":")[0]:
                self.note(f"{text} …")
                self._stage_began = time.monotonic()
            if not self._stage:
                over = self._stages_over = threading.Event()
                threading.Thread(target=self._repeat, args=(over,), daemon=True).start()
        self._stage = text

    def _repeat(self, over: threading.Event) -> None:
        """A line now and then while a stage lasts."""
        while not over.wait(EVERY):
            since = duration(time.monotonic() - self._stage_began)
            self.note(f"{self._stage} … ({since} so far)")

    def finish(self) -> None:
        """Take the bar away and sum up."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        done, failed = self._last
        took = time.monotonic() - self._pace.started
        if self._pace.runs:
            runs = f"{done + failed:,} of {self._pace.runs:,} runs"
            failures = f", {failed:,} failed" if failed else ""
            self.note(f"{runs} simulated in {duration(took)}{failures}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stage("")
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


@contextmanager
def stage(progress: Progress, text: str) -> Iterator[None]:
    """Say that something takes a while, until it is done."""
    progress.stage(text)
    try:
        yield
    finally:
        progress.stage("")


@contextmanager
def lasting(seconds: float, text: str) -> Iterator[Callable[[float, str], None]]:
    """Say how far something is that lasts a known time; call the result to tell."""
    console = Console(file=sys.stderr, highlight=False)
    if not console.is_terminal:
        progress = ConsoleProgress(console)
        with stage(progress, text):
            yield lambda done, words: progress.stage(f"{text}: {words}")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=seconds)
        yield lambda done, words: bar.update(task, completed=done, description=words)


def duration(seconds: float) -> str:
    """0.3 s, 45 s, 3 min 20 s, 2 h 5 min."""
    if 0 < seconds < 0.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
