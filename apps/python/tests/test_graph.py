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
    x, y = rt.register(np.ones(1)), rt.register(np.zeros(1))

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
    x = rt.register(np.ones(1))
    with pytest.raises(TypeError, match="read"):
        rt.submit(print, x)
    with pytest.raises(TypeError, match="handle"):
        read(1)
    with pytest.raises(zellige.Error):
        rt.submit(print, read(x), update(x))


@pytest.mark.parametrize("function", [lambda v: v * 2, lambda v: 1.0, lambda v: v.sum(), lambda v: v.copy()])
def test_what_an_update_returns_is_no_new_value(function):
    rt = zellige.Runtime(workers=1)
    v = rt.register(np.ones(3), "v")
    with pytest.raises(zellige.Error, match=r"double.*returned a value of type .*in place.*v \*= 2.*write\(\)") as caught:
        rt.wait(rt.submit(function, update(v), name="double"))
    assert isinstance(caught.value.__cause__, TypeError)


def test_an_update_may_return_its_operand_and_values_to_write():
    rt = zellige.Runtime(workers=1)
    v, total = rt.register(np.ones(3), "v"), rt.register_empty()
    rt.submit(lambda v: np.multiply(v, 2, out=v), update(v))

    def double(v):
        v *= 2
        return v.sum()

    rt.submit(double, update(v), write(total))
    assert rt.take(v)[0] == 4 and rt.take(total) == 12


def test_masked_arrays_are_refused():
    with pytest.raises(TypeError, match="masked array.*getmaskarray"):
        zellige.Runtime(workers=1).register(np.ma.array([1.0, 2], mask=[0, 1]))


FIXED = [1, 1.5, True, 1j, "text", b"bytes", None, (), (1, "text"), frozenset(), np.float64(1), np.int32(3)]


@pytest.mark.parametrize("value", FIXED, ids=repr)
def test_updates_of_what_cannot_be_changed_fail(value):
    rt = zellige.Runtime(workers=1)
    v, kind = rt.register(value, "v"), type(value).__name__
    task = rt.submit(lambda x, v: None, read(rt.register(0)), update(v), name="step")
    with pytest.raises(zellige.Error, match=rf"step.*type {kind}, cannot be changed in place.*numpy.array"):
        rt.wait(task)


@pytest.mark.parametrize("value", [[1], {}, (np.ones(1),), np.zeros(()), np.zeros(1, "f8,i4")[0]], ids=repr)
def test_updates_of_what_can_be_changed_are_not_refused(value):
    rt = zellige.Runtime(workers=1)
    v = rt.register(value)
    rt.wait(rt.submit(lambda v: None, update(v)))


def test_a_number_that_becomes_an_array_may_be_updated():
    rt = zellige.Runtime(workers=1)

    def double(v):
        v *= 2

    v, w = rt.register(1.0, "v"), rt.register(1.0)
    rt.submit(lambda: np.ones(2), write(v))
    rt.submit(double, update(v))
    graph = rt.record(lambda graph: [graph.submit(lambda: np.ones(2), write(v)), graph.submit(double, update(v))])
    rt.replay(graph, {"v": w})
    rt.submit(double, update(w))
    assert rt.take(v)[0] == 2 and rt.take(w)[0] == 4


def test_policies_have_the_names_of_the_runtime():
    for name in ["lws", "prio", "eager", "dm", "dmda", "dmdar", "dmdas", "heteroprio", "random"]:
        rt = zellige.Runtime(workers=2, policy=name, window=4, bind=False)
        x = rt.register(np.zeros(1))
        for _ in range(20):
            rt.submit(lambda x: x.__iadd__(1) and None, update(x), name="add")
        assert rt.take(x)[0] == 20 and rt.policy == name
    with pytest.raises(zellige.Error, match="no scheduling policy .fastest.: take one of lws, prio"):
        zellige.Runtime(policy="fastest")


def test_priorities_are_heeded_by_prio():
    rt = zellige.Runtime(workers=1, policy="prio")
    began, go, order = threading.Event(), threading.Event(), []
    rt.submit(lambda _: (began.set(), go.wait()) and None, read(rt.register(0)))
    began.wait()
    for priority in [1, 3, 2]:
        rt.submit(lambda _, p=priority: order.append(p), read(rt.register(0)), priority=priority)
    go.set()
    rt.wait_all()
    assert order == [3, 2, 1]


def test_a_recorded_graph_runs_again():
    rt = zellige.Runtime(workers=2)
    x, y, total = rt.register(np.ones(100), "x"), rt.register(np.zeros(100), "y"), rt.register_empty()
    calls = []

    def axpy(x, y):
        y += 2 * x

    def double(x):
        x *= 2

    def add(both):
        calls.append(1)
        return sum(each.sum() for each in both)

    def build(graph):
        graph.submit(axpy, read(x), update(y))
        graph.submit(double, update(x))
        graph.submit(add, read([x, y]), write(total))

    graph = rt.record(build)
    assert len(graph) == 3 and not calls
    for _ in range(4):
        rt.replay(graph)
    # As if they had been submitted here: after what came before, before what follows.
    rt.submit(double, update(y))
    expected_x, expected_y = 2**4, 2 * (1 + 2 + 4 + 8)
    assert rt.read(total) == 100 * (expected_x + expected_y)
    assert rt.take(x)[0] == expected_x and rt.take(y)[0] == 2 * expected_y and len(calls) == 4


def test_a_replay_runs_on_other_handles():
    rt = zellige.Runtime(workers=1)
    x, other = rt.register(np.ones(3), "x"), rt.register(np.full(3, 10.0))

    def add(x):
        x += 1

    graph = rt.record(lambda graph: graph.submit(add, update(x)))
    rt.wait(rt.replay(graph, {"x": other}))
    assert rt.read(x)[0] == 1 and rt.take(other)[0] == 11
    with pytest.raises(zellige.Error, match='no slot called "z"; it has x'):
        rt.replay(graph, {"z": x})


def test_what_cannot_be_recorded_or_replayed_is_said():
    rt = zellige.Runtime(workers=1)
    x = rt.register(np.ones(3), "x")
    with pytest.raises(zellige.Error, match="twice"):
        rt.record(lambda graph: graph.submit(print, read(x), update(x), name="twice"))
    with pytest.raises(TypeError, match="read"):
        rt.record(lambda graph: graph.submit(print, x))
    with pytest.raises(KeyError):
        rt.record(lambda graph: {}["nothing"])

    def fail(x):
        raise ZeroDivisionError("in a replay")

    graph = rt.record(lambda graph: graph.submit(fail, update(x)))
    with pytest.raises(zellige.Error, match="in a replay") as caught:
        rt.wait(rt.replay(graph))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


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
        "import time, numpy, zellige\n"
        "rt = zellige.Runtime(workers=1)\n"
        "x = rt.register(numpy.zeros(1))\n"
        "for _ in range(200): rt.submit(lambda x: time.sleep(0.1), zellige.update(x))\n"
        "print('waiting', flush=True)\n"
        "rt.wait_all()\n"
    )
    command, pipe = [sys.executable, "-c", code], subprocess.PIPE
    child = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    assert child.stdout.readline() == "waiting\n"
    time.sleep(0.3)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=15)
    assert "KeyboardInterrupt" in err and time.monotonic() - began < 10
