"""`Threads` reuses idle threads."""

import threading
from contextvars import ContextVar
from queue import SimpleQueue
from threading import Event, Thread, current_thread
from time import monotonic, sleep

import pytest

from counterfoil.delivery.concurrency import Threads

TIMEOUT_SECONDS = 20


def run_on_thread(threads: Threads, name: str) -> tuple[Thread, str]:
    """Run a function on one of `threads`.

    Return the thread, and its name during the call.
    """
    results: SimpleQueue[tuple[Thread, str]] = SimpleQueue()
    threads.start(name, lambda: results.put((current_thread(), current_thread().name)))
    return results.get(timeout=TIMEOUT_SECONDS)


def wait_for_idle(threads: Threads) -> None:
    """Wait until a thread is idle."""
    deadline = monotonic() + TIMEOUT_SECONDS
    while not threads._idle:
        assert monotonic() < deadline
        sleep(0.001)


def test_idle_thread_is_reused_under_new_name() -> None:
    threads = Threads()
    first, name = run_on_thread(threads, "heartbeat")
    assert name == "heartbeat"
    wait_for_idle(threads)
    assert run_on_thread(threads, "matching") == (first, "matching")
    assert first.daemon


def test_context_variables_do_not_leak_between_functions() -> None:
    threads, variable = Threads(), ContextVar("about", default="nothing")

    def set_variable() -> None:
        variable.set("the first")

    threads.start("first", set_variable)
    wait_for_idle(threads)
    results: SimpleQueue[str] = SimpleQueue()
    threads.start("second", lambda: results.put(variable.get()))
    assert results.get(timeout=TIMEOUT_SECONDS) == "nothing"


def test_thread_is_not_reused_after_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads()
    uncaught: SimpleQueue[threading.ExceptHookArgs] = SimpleQueue()
    monkeypatch.setattr(threading, "excepthook", uncaught.put)

    def fail() -> None:
        raise ValueError

    threads.start("failing", fail)
    failure = uncaught.get(timeout=TIMEOUT_SECONDS)
    assert failure.exc_type is ValueError
    assert failure.thread is not None
    failure.thread.join(TIMEOUT_SECONDS)
    assert not threads._idle


def test_concurrent_functions_run_on_separate_threads() -> None:
    threads = Threads()
    started, resume = Event(), Event()

    def wait_for_resume() -> None:
        started.set()
        resume.wait(TIMEOUT_SECONDS)

    threads.start("slow", wait_for_resume)
    assert started.wait(TIMEOUT_SECONDS)
    try:
        _, name = run_on_thread(threads, "quick")  # while the slow function runs
        assert name == "quick"
    finally:
        resume.set()


def test_finished_function_is_garbage_collected() -> None:
    threads = Threads()
    collected = Event()

    class Resource:
        def __del__(self) -> None:
            collected.set()

    resource = Resource()
    threads.start("try", lambda resource=resource: None)  # type: ignore[misc]
    del resource
    assert collected.wait(TIMEOUT_SECONDS)
