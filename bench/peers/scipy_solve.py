"""Sparse systems solved to a relative residual of 1e-10 by zellige and by scipy, in turn:

python bench/peers/scipy_solve.py [rounds=3] [FILE.mtx.gz...]

Needs the Python package of zellige, and scipy. Without files: Poisson's equation on a square of 500 x 500
points and on a cube of 32 x 32 x 32, and on the same cube with layers whose coefficients differ by 1e4.
Right-hand sides are A x with a random x.

Times are medians over the rounds, wall-clock and of all threads (CPU). scipy's `spsolve` (SuperLU) and `cg` use
one thread, zellige one per core. Residuals are recomputed from the answers, and are those of the last round.
"""

import os
import statistics
import sys
import time

# As SuperLU does: threads of OpenBLAS would wait for each other in the vectors of `cg`.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.io
import scipy.sparse as sparse
import scipy.sparse.linalg as linalg

import zellige

GOAL = 1e-10
MOST = 20_000


def poisson(shape, coefficients=None):
    """Fluxes between neighbours; the conductivity of a face is the harmonic mean of its two cells'."""
    cells = np.ones(shape) if coefficients is None else coefficients
    numbers = np.arange(cells.size, dtype=np.int32).reshape(shape)
    rows, columns, values = [], [], []
    for axis in range(len(shape)):
        first, second = (np.take(numbers, range(i, shape[axis] - 1 + i), axis).ravel() for i in (0, 1))
        a, b = cells.ravel()[first], cells.ravel()[second]
        rows.append(first), columns.append(second), values.append(-2 * a * b / (a + b))
    places = np.concatenate(rows), np.concatenate(columns)
    off = sparse.coo_array((np.concatenate(values), places), 2 * (cells.size,))
    off = off + off.T
    # Values are 0 on the faces at both ends of the first axis, half a cell away.
    ends = np.zeros(shape)
    ends[0], ends[-1] = 2 * cells[0], 2 * cells[-1]
    return sparse.csr_array(off + sparse.diags_array(ends.ravel() - off.sum(axis=1)))


def layers(shape):
    return np.broadcast_to(np.where(np.arange(shape[0]) // 4 % 2, 1e4, 1.0)[:, None, None], shape)


def systems(files):
    if not files:
        yield "Poisson 500 x 500", poisson((500, 500))
        yield "Poisson 32 x 32 x 32", poisson((32, 32, 32))
        yield "the same in layers", poisson((32, 32, 32), layers((32, 32, 32)))
    for file in files:
        yield file.rsplit("/", 1)[-1], sparse.csr_array(scipy.io.mmread(file))


def ways(a, b):
    columns = sparse.csc_array(a)
    symmetric = abs(a - a.T).max() <= 1e-12 * abs(a).max()

    def cg():
        return linalg.cg(a, b, rtol=GOAL, atol=0, maxiter=MOST)[0]

    def plain():
        return zellige.solve(a, b, GOAL, method="cg", precond="none", max_steps=MOST).x

    yield "scipy spsolve", lambda: linalg.spsolve(columns, b)
    if symmetric:
        yield "scipy cg", cg
    yield "zellige solve", lambda: zellige.solve(a, b, GOAL).x
    if symmetric:
        yield "zellige cg, no preconditioner", plain


def main():
    rounds = [int(each.removeprefix("rounds=")) for each in sys.argv[1:] if each.startswith("rounds=")] or [3]
    files = [each for each in sys.argv[1:] if "=" not in each]
    print("| system | rows, nonzeros | program | s | CPU s | residual |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, a in systems(files):
        a = sparse.csr_array(a)
        b = a @ np.random.default_rng(1).standard_normal(a.shape[0])
        times, residuals = {}, {}
        for _ in range(rounds[0]):
            for way, solve in ways(a, b):
                wall, cpu = time.perf_counter(), time.process_time()
                x = solve()
                spent = time.perf_counter() - wall, time.process_time() - cpu
                times.setdefault(way, []).append(spent)
                residuals[way] = np.linalg.norm(b - a @ x) / np.linalg.norm(b)
        for way, spent in times.items():
            wall, cpu = (statistics.median(each) for each in zip(*spent))
            size, residual = f"{a.shape[0]}, {a.nnz}", f"{residuals[way]:.1e}"
            print(f"| {name} | {size} | {way} | {wall:.2f} | {cpu:.2f} | {residual} |", flush=True)


main()
