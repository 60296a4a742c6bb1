import sys
import threading
import time

import numpy as np
import pytest

import zellige
from zellige import read, update, write


def test_tasks_run_in_the_order_of_their_data():
    rt = zellige.Runtime(workers=2)
    x = rt.register(np.ones(1000))
    y = rt.register(np.zeros(1000))

    def axpy(x, y):
        y += 3 * x

    def double(x):
        x *= 2

    for _ in range(10):
        rt.submit(axpy, read(x), update(y))
        rt.submit(double, update(x))
    assert rt.take(y)[0] == 3 * (2**10 - 1)


def test_written_values_are_what_the_function_returns():
    rt = zellige.Runtime(workers=1)
    a, b, c = rt.register_empty(), rt.register_empty(), rt.register_empty()
    rt.submit(lambda: np.arange(3), write(a))
    rt.submit(lambda a: (a + 1, "text"), read(a), write(b), write(c))
    assert rt.read(c) == "text"
    assert list(rt.take(b)) == [1, 2, 3] and list(rt.take(a)) == [0, 1, 2]
    with pytest.raises(zellige.Error, match="returned 3 values for 2 operands"):
        rt.wait(rt.submit(lambda: (1, 2, 3), write(rt.register_empty()), write(rt.register_empty())))


def test_lists_of_any_length():
    rt = zellige.Runtime(workers=2)
    parts = [rt.register(np.full(10, float(i))) for i in range(50)]
    total = rt.register_empty("total")
    rt.submit(lambda parts: sum(part.sum() for part in parts), read(parts), write(total))
    assert rt.take(total) == 10 * sum(range(50))


def test_what_is_read_cannot_be_changed():
    rt = zellige.Runtime(workers=1)
    x = rt.register(np.ones(3))

    def change(x):
        x += 1

    with pytest.raises(zellige.Error) as caught:
        rt.wait(rt.submit(change, read(x)))
    assert isinstance(caught.value.__cause__, ValueError)
    assert "change" in str(caught.value)


@pytest.mark.parametrize("keep", [lambda x: x, lambda x: x[1:], lambda x: x.reshape(3, 1)])
def test_an_array_that_is_kept_fails_the_task(keep):
    rt = zellige.Runtime(workers=1)
    x, kept = rt.register(np.ones(3), "x"), []
    task = rt.submit(lambda x: kept.append(keep(x)), read(x), name="keeper")
    with pytest.raises(zellige.Error, match="keeper.*kept an array"):
        rt.wait(task)


def test_a_failure_reaches_who_needs_the_value():
    rt = zellige.Runtime(workers=2)
    x, y = rt.register(1.0), rt.register(np.zeros(1))

    def fail(x):
        raise KeyError("no such key")

    def add(x, y):
        y += x

    rt.submit(fail, update(x))
    rt.submit(add, read(x), update(y))
    with pytest.raises(zellige.Error, match="no such key") as caught:
        rt.read(y)
    assert isinstance(caught.value.__cause__, KeyError)


def test_waits_release_the_interpreter():
    rt = zellige.Runtime(workers=1)
    x, seen = rt.register(0), []
    thread = threading.Thread(target=lambda: seen.append(1))
    task = rt.submit(lambda x: (thread.start(), thread.join()) and None, read(x))
    rt.wait(task)
    assert seen == [1]


def test_tasks_may_submit_tasks():
    rt = zellige.Runtime(workers=1)
    x, y = rt.register(np.zeros(1)), rt.register(np.zeros(1))

    def inner(y):
        y += 2

    def outer(x):
        rt.wait(rt.submit(inner, update(y)))
        x += 1

    rt.wait(rt.submit(outer, update(x)))
    assert rt.take(x)[0] == 1 and rt.take(y)[0] == 2


def test_operands_are_checked():
    rt = zellige.Runtime(workers=1)
    x = rt.register(1)
    with pytest.raises(TypeError, match="read"):
        rt.submit(print, x)
    with pytest.raises(TypeError, match="handle"):
        read(1)
    with pytest.raises(zellige.Error):
        rt.submit(print, read(x), update(x))


def test_a_trace_is_written(tmp_path):
    rt = zellige.Runtime(workers=1, trace=True)
    x = rt.register(np.zeros(1))
    rt.wait(rt.submit(lambda x: None, read(x), name="nothing"))
    rt.write_trace(tmp_path / "run.zt")
    assert (tmp_path / "run.zt").read_bytes().startswith(b"zltrace\n")


def test_ctrl_c_ends_a_wait(tmp_path):
    import signal
    import subprocess

    code = (
        "import time, zellige\n"
        "rt = zellige.Runtime(workers=1)\n"
        "x = rt.register(0)\n"
        "for _ in range(200): rt.submit(lambda x: time.sleep(0.1), zellige.update(x))\n"
        "print('waiting', flush=True)\n"
        "rt.wait_all()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "waiting\n"
    time.sleep(0.3)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=15)
    assert "KeyboardInterrupt" in err and time.monotonic() - began < 10
