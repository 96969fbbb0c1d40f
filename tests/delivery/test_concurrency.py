"""Threads that run what is begun, and wait for more."""

import threading
from contextvars import ContextVar
from queue import SimpleQueue
from threading import Event, Thread, current_thread
from time import monotonic, sleep

import pytest

from counterfoil.delivery.concurrency import Threads

LONG = 20


def on_thread(threads: Threads, name: str) -> tuple[Thread, str]:
    """The thread that something is run on, and its name then."""
    seen: SimpleQueue[tuple[Thread, str]] = SimpleQueue()
    threads.begin(name, lambda: seen.put((current_thread(), current_thread().name)))
    return seen.get(timeout=LONG)


def wait_for_idle(threads: Threads) -> None:
    """Until a thread waits for more."""
    until = monotonic() + LONG
    while not threads._idle:
        assert monotonic() < until
        sleep(0.001)


def test_a_thread_that_waits_runs_what_is_begun_next_under_its_name() -> None:
    threads = Threads()
    first, name = on_thread(threads, "heartbeat")
    assert name == "heartbeat"
    wait_for_idle(threads)
    assert on_thread(threads, "matching") == (first, "matching")
    assert first.daemon


def test_what_one_function_says_of_its_context_the_next_one_does_not_see() -> None:
    threads, about = Threads(), ContextVar("about", default="nothing")
    threads.begin("first", lambda: about.set("the first") and None)
    wait_for_idle(threads)
    seen: SimpleQueue[str] = SimpleQueue()
    threads.begin("second", lambda: seen.put(about.get()))
    assert seen.get(timeout=LONG) == "nothing"


def test_a_thread_whose_function_raises_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads()
    raised: SimpleQueue[threading.ExceptHookArgs] = SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", raised.put)

    def fail() -> None:
        raise ValueError

    threads.begin("failing", fail)
    failed = raised.get(timeout=LONG)
    assert failed.exc_type is ValueError
    assert failed.thread is not None
    failed.thread.join(LONG)
    assert not threads._idle


def test_what_runs_side_by_side_has_threads_of_its_own() -> None:
    threads = Threads()
    begun, go_on = Event(), Event()

    def slow() -> None:
        begun.set()
        go_on.wait(LONG)

    threads.begin("slow", slow)
    assert begun.wait(LONG)
    try:
        _, name = on_thread(threads, "quick")  # while the other one runs
        assert name == "quick"
    finally:
        go_on.set()


def test_what_a_thread_has_run_is_kept_by_nobody() -> None:
    threads = Threads()
    gone = Event()

    class Held:
        def __del__(self) -> None:
            gone.set()

    held = Held()
    threads.begin("try", lambda held=held: None)  # type: ignore[misc]
    del held
    assert gone.wait(LONG)
