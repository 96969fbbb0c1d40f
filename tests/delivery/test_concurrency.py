"""Reuse of threads by `Threads`."""

import threading
from contextvars import ContextVar
from queue import SimpleQueue
from threading import Event, Thread, current_thread
from time import monotonic, sleep

import pytest

from counterfoil.delivery.concurrency import Threads

LONG = 20


def on_thread(threads: Threads, name: str) -> tuple[Thread, str]:
    """Run a function on a thread; return the thread and its name at that time."""
    seen: SimpleQueue[tuple[Thread, str]] = SimpleQueue()
    threads.start(name, lambda: seen.put((current_thread(), current_thread().name)))
    return seen.get(timeout=LONG)


def wait_for_idle(threads: Threads) -> None:
    """Wait until a thread is idle."""
    until = monotonic() + LONG
    while not threads._idle:
        assert monotonic() < until
        sleep(0.001)


def test_idle_thread_is_reused_under_new_name() -> None:
    threads = Threads()
    first, name = on_thread(threads, "heartbeat")
    assert name == "heartbeat"
    wait_for_idle(threads)
    assert on_thread(threads, "matching") == (first, "matching")
    assert first.daemon


def test_context_variables_do_not_leak_between_functions() -> None:
    threads, about = Threads(), ContextVar("about", default="nothing")

    def set_variable() -> None:
        about.set("the first")

    threads.start("first", set_variable)
    wait_for_idle(threads)
    seen: SimpleQueue[str] = SimpleQueue()
    threads.start("second", lambda: seen.put(about.get()))
    assert seen.get(timeout=LONG) == "nothing"


def test_thread_is_not_reused_after_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads()
    raised: SimpleQueue[threading.ExceptHookArgs] = SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", raised.put)

    def fail() -> None:
        raise ValueError

    threads.start("failing", fail)
    failed = raised.get(timeout=LONG)
    assert failed.exc_type is ValueError
    assert failed.thread is not None
    failed.thread.join(LONG)
    assert not threads._idle


def test_concurrent_functions_run_on_separate_threads() -> None:
    threads = Threads()
    begun, go_on = Event(), Event()

    def slow() -> None:
        begun.set()
        go_on.wait(LONG)

    threads.start("slow", slow)
    assert begun.wait(LONG)
    try:
        _, name = on_thread(threads, "quick")  # while the slow function runs
        assert name == "quick"
    finally:
        go_on.set()


def test_finished_function_is_garbage_collected() -> None:
    threads = Threads()
    collected = Event()

    class Resource:
        def __del__(self) -> None:
            collected.set()

    resource = Resource()
    threads.start("try", lambda resource=resource: None)  # type: ignore[misc]
    del resource
    assert collected.wait(LONG)
