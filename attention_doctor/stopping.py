"""An end to what takes too long: code of others, stopped between two lines of Python."""

import contextlib
import ctypes
import signal
import threading


class OutOfTime(BaseException):
    """The time is over. No Exception, so that `except Exception` in the code that runs does not hold it up."""


@contextlib.contextmanager
def time_limit(seconds: float):
    """Raise OutOfTime in what runs inside once the seconds are over; a shorter limit around it stays in charge.

    A single call into torch that takes minutes ends only when it returns.
    """
    main = threading.current_thread() is threading.main_thread()
    with _alarm(seconds) if main and hasattr(signal, "setitimer") else _watcher(seconds):
        yield


@contextlib.contextmanager
def _alarm(seconds: float):
    left, ours = signal.getitimer(signal.ITIMER_REAL)[0], getattr(signal.getsignal(signal.SIGALRM), "limits", False)
    if ours and 0 < left < seconds:
        yield  # inside a shorter limit
        return
    running = True

    def ring(signum, frame):
        if running:
            raise OutOfTime

    ring.limits = True
    handler = signal.signal(signal.SIGALRM, ring)
    # It rings again and again, for code that catches everything and goes on.
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, 0.05)
    try:
        try:
            yield
        finally:
            running = False
    finally:  # reached even if the bell rang on the way to the line above
        running = False
        signal.setitimer(signal.ITIMER_REAL, *timer)
        # An alarm that is on its way to another thread ends the process where the default stands; a silent bell stays.
        if handler not in (None, signal.SIG_DFL):
            signal.signal(signal.SIGALRM, handler)


@contextlib.contextmanager
def _watcher(seconds: float):
    """Do the same where there are no alarms (Windows, other threads): between two lines of Python, raise."""
    done, thread = threading.Event(), ctypes.c_ulong(threading.get_ident())
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc

    def watch():
        over = done.wait(seconds)
        while not over:
            raise_in(thread, ctypes.py_object(OutOfTime))
            over = done.wait(0.05)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        try:
            yield
        finally:
            done.set()
    finally:
        done.set()
        watcher.join()
        raise_in(thread, None)  # take back what was not raised yet
