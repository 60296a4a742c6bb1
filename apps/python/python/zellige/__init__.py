"""Task graphs on numpy arrays, mixed-precision dense and sparse solvers, searches for cheap formats.

>>> import numpy as np, zellige
>>> rt = zellige.Runtime()
>>> x, y = rt.register(np.ones(4)), rt.register(np.zeros(4))
>>> def axpy(x, y):
...     y += 3 * x
>>> task = rt.submit(axpy, zellige.read(x), zellige.update(y))
>>> rt.take(y)
array([3., 3., 3., 3.])

``zellige.tor`` has tomographic reconstructors, ``zellige.psa`` pulse-shape analysis, ``zellige.stochastic`` numbers that
know how many of their digits are exact.
"""

from __future__ import annotations

import os as _os
import warnings as _warnings
from dataclasses import dataclass as _dataclass
from importlib.metadata import version as _version
from typing import Any, Callable, Literal, Mapping, Sequence, overload as _overload

import numpy as _np

from . import _arrays, _zellige
from ._tune import Trial, TuneResult, tune
from ._zellige import Error, Graph, Handle, Task
from .stochastic import Stochastic, Trust

__all__ = [
    "Cholesky", "Error", "Graph", "Handle", "Recorder", "Runtime", "SolveResult", "Stochastic", "Task", "Trial",
    "TuneResult", "cholesky", "psa", "read", "solve", "stochastic", "tor", "tune", "update", "write",
]

__version__ = _version("zellige")


@_dataclass(frozen=True)
class Operand:
    """A handle, or a list of them, and what a task does with it. Made by `read`, `update` and `write`."""

    mode: int
    handle: Any


def _operand(mode: int, handle: Handle | Sequence[Handle]) -> Operand:
    if isinstance(handle, Handle):
        return Operand(mode, handle)
    wrong: Any = handle
    if isinstance(handle, (list, tuple)):
        wrong = next((each for each in handle if not isinstance(each, Handle)), None)
        if wrong is None:
            return Operand(mode, list(handle))
    raise TypeError(f"an operand is a handle or a list of handles, not {type(wrong).__name__}")


def read(handle: Handle | Sequence[Handle]) -> Operand:
    """The function gets the value; an array is read-only."""
    return _operand(0, handle)


def update(handle: Handle | Sequence[Handle]) -> Operand:
    """The function gets the value, changes it in place (``v *= 2``, ``v[:] = ...``), and returns nothing.

    What it binds its own name to (``v = v @ v``) is lost when it returns. What it returns would be, too: the task
    fails where that is neither None nor the operand, and where the value is a number or a text, which cannot be
    changed in place.
    """
    return _operand(1, handle)


def write(handle: Handle | Sequence[Handle]) -> Operand:
    """The function gets nothing; what it returns is the new value (a tuple, where several are written)."""
    return _operand(2, handle)


def _call(function: Callable[..., Any], operands: Sequence[Operand], name: str | None, priority: int) -> Any:
    for operand in operands:
        if not isinstance(operand, Operand):
            raise TypeError("say what the task does with its operand: zellige.read(x), update(x) or write(x)")
    label = str(name or getattr(function, "__name__", type(function).__name__))
    return function, [(each.mode, each.handle) for each in operands], label, priority


class Recorder:
    """Takes tasks as a `Runtime` does, and writes them down instead of running them. See `Runtime.record`."""

    def __init__(self) -> None:
        self._calls: list[Any] = []

    def submit(self, function: Callable[..., Any], *operands: Operand, name: str | None = None,
               priority: int = 0) -> None:
        """As `Runtime.submit`, without a task to wait for."""
        self._calls.append(_call(function, operands, name, priority))


class Runtime:
    """Workers that run Python functions as tasks.

    Dependencies follow from the order of submission and from what each task does with its operands.
    Functions hold the interpreter's lock, and run in parallel as far as they release it, as numpy does in
    large operations.

    Parameters
    ----------
    workers : int, optional
        Threads that run tasks; by default one per core.
    policy : str, optional
        Scheduling policy: ``lws`` (default: a queue per worker, idle ones steal), ``prio`` (one queue,
        highest priority first), ``eager`` (one queue, first come first served), ``dm``, ``dmda``,
        ``dmdar``, ``dmdas``, ``heteroprio``, ``random``.
    window : int, optional
        Tasks in flight at most (8192): a submission beyond waits until half of them are complete.
    bind : bool, optional
        Whether each worker is bound to a core; by default, unless there are more workers than cores.
    trace : bool
        Record what happens, for `write_trace`.

    Raises
    ------
    Error
        For no workers, and for a policy that there is not, with those that there are.
    """

    def __init__(self, workers: int | None = None, *, policy: str | None = None, window: int | None = None,
                 bind: bool | None = None, trace: bool = False) -> None:
        self._rt = _zellige.Runtime(workers, policy, window, bind, trace)

    @property
    def workers(self) -> int:
        """Threads that run tasks."""
        return self._rt.workers

    @property
    def policy(self) -> str:
        """The scheduling policy's name."""
        return self._rt.policy

    def register(self, value: Any, name: str | None = None) -> Handle:
        """Give a value to the runtime. An array is not copied: leave it alone until it is taken back.

        Raises
        ------
        TypeError
            For a masked array: functions get arrays without their masks.
        """
        if isinstance(value, _np.ma.MaskedArray):
            raise TypeError("a masked array, of which functions would get the data without the mask: register "
                            "value.data and numpy.ma.getmaskarray(value), each for itself")
        return self._rt.register(value, name)

    def register_empty(self, name: str | None = None) -> Handle:
        """A handle without a value: a task has to write it first."""
        return self._rt.register_empty(name)

    def submit(self, function: Callable[..., Any], *operands: Operand, name: str | None = None,
               priority: int = 0) -> Task:
        """Submit a task and return at once.

        Parameters
        ----------
        function : callable
            Called with the values of what it reads and updates, in the order of `operands`; a list for a
            list. Arrays may be used until it returns; one that is kept longer is an error of the task.
        *operands : Operand
            Made by `read`, `update` and `write`.
        name : str, optional
            For traces and messages; by default the function's name.
        priority : int
            Larger runs earlier, where the policy heeds it.
        """
        return self._rt.submit(_call(function, operands, name, priority))

    def record(self, build: Callable[[Recorder], Any]) -> Graph:
        """Write down the tasks that `build` submits to its argument; none of them runs.

        A graph needs no analysis when it runs (`replay`). The functions are called anew in each replay:
        whatever else they use of Python has the value that it has then.

        >>> import numpy as np
        >>> rt = Runtime()
        >>> x = rt.register(np.ones(2), "x")
        >>> def double(x):
        ...     x *= 2
        >>> def build(graph):
        ...     for _ in range(3):
        ...         graph.submit(double, update(x))
        >>> graph = rt.record(build)
        >>> for _ in range(2):
        ...     task = rt.replay(graph)
        >>> len(graph), rt.take(x)
        (3, array([64., 64.]))
        """
        recorder = Recorder()
        build(recorder)
        return self._rt.record(recorder._calls)

    def replay(self, graph: Graph, bind: Mapping[str, Handle] | None = None) -> Task:
        """Run a recorded graph, and return at once; the task ends once all of the graph's have.

        Its tasks come after all that was submitted before and uses the same handles.

        Parameters
        ----------
        graph : Graph
            Made by `record`.
        bind : mapping, optional
            Names of handles that were used while recording, and the handles to use in their place.
        """
        return self._rt.replay(graph, list((bind or {}).items()))

    def read(self, handle: Handle) -> Any:
        """Wait for the value; a copy of it (arrays) or the value itself."""
        return self._rt.read(handle)

    def take(self, handle: Handle) -> Any:
        """Wait for the value and take it out of the runtime."""
        return self._rt.take(handle)

    def wait(self, task: Task) -> None:
        """Wait for a task. Raises `Error`, with the function's exception as its cause, if it failed."""
        self._rt.wait(task)

    def wait_all(self) -> None:
        """Wait for all tasks. Raises `Error` for the first that failed since the last call."""
        self._rt.wait_all()

    def cancel_all(self) -> None:
        """Discard what has not begun."""
        self._rt.cancel_all()

    def write_trace(self, path: str | _os.PathLike[str]) -> None:
        """Write what was recorded; ``zellige trace html FILE`` makes a page of it."""
        self._rt.write_trace(path)


def _columns(b: _np.ndarray, rows: int) -> tuple[_np.ndarray, bool]:
    if b.ndim not in (1, 2) or b.shape[0] != rows:
        raise ValueError(f"right-hand sides of shape {b.shape} for a matrix of {rows} rows")
    _arrays.check_finite("b", b)
    return (b[:, None], True) if b.ndim == 1 else (b, False)


class Cholesky:
    """The factor of a symmetric positive definite matrix, made by `cholesky`.

    Each product of tiles is in the precision that a rule gives it.
    """

    def __init__(self, a: Any, rule: str, tile: int | None = None) -> None:
        self._factored("a", a, rule, tile, stacklevel=3)

    def _factored(self, name: str, a: Any, rule: str, tile: int | None, stacklevel: int) -> None:
        given = _arrays.real_numbers(name, a, f"take {name}.real if the imaginary parts are 0; zellige.solve solves "
                                     "complex systems")
        a = _np.asarray(given, dtype=_np.float64)
        if a.ndim != 2:
            raise ValueError(f"{name}: a matrix has two dimensions, not {a.ndim}")
        if tile is not None and tile < 1:
            raise ValueError(f"tile: {tile} rows; give 1 or more, or None")
        if a.shape[0] == a.shape[1]:
            _arrays.check_finite(name, a)
            _arrays.check_symmetric(name, a, _ASYMMETRY.get(given.dtype, _ASYMMETRY[_np.dtype(_np.float64)]))
        self._rows, self._rule = a.shape[0], rule
        self._factor = _zellige.Cholesky(a, rule, tile)
        self._warn_without_effect(stacklevel)

    def _warn_without_effect(self, stacklevel: int) -> None:
        """Says that a rule has lowered nothing: without a word, results would be taken for the rule's."""
        low, shares, tile = self._rule.split(",")[0].split(":")[0].strip(), self.shares, self._factor.tile
        # A matrix of two rows has no products, whatever the tiles are.
        if low in ("fp32", "fp64") or low in shares or self._rows < 3:
            return
        if shares:
            problem = (f"its condition held for no product of tiles, all were in {' or '.join(shares)}: take another "
                       f"condition, or other tiles than those of {tile} rows (tile=...)")
        else:
            tiles = "one tile" if self._rows <= tile else "two tiles"
            problem = (f"{self._rows} rows are {tiles} of {tile}, and a factorisation has products of tiles from "
                       f"three on: take tile={max(1, self._rows // 8)} say, {(self._rows - 1) // 2} at most")
        _warnings.warn(f"the rule {self._rule} has had no effect on the factor: {problem}", UserWarning,
                       stacklevel=stacklevel + 1)

    def __repr__(self) -> str:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.shares.items())
        return (f"<Cholesky of {self._rows} rows, rule {self._rule}, tiles of {self._factor.tile}: "
                f"{shares or 'no products'}>")

    @property
    def shares(self) -> dict[str, float]:
        """The share of tile products in each precision; empty for fewer than three tiles, which have none."""
        return dict(self._factor.shares)

    def _right_hand_sides(self, b: Any) -> tuple[_np.ndarray, bool]:
        return _columns(_arrays.real("b", b, "solve for b.real and for b.imag; the factor is real"), self._rows)

    @_overload
    def solve(self, b: Any, *, trust: Literal[False] = ..., samples: int = ..., seed: int = ...) -> _np.ndarray: ...
    @_overload
    def solve(self, b: Any, *, trust: Literal[True], samples: int = ..., seed: int = ...) -> Trust: ...

    def solve(self, b: Any, *, trust: bool = False, samples: int = 8, seed: int = 0) -> _np.ndarray | Trust:
        """``A^-1 b``, as accurate as the factor.

        With `trust`, how many digits of it are exact: the factorisation and the solution are computed again in
        stochastic arithmetic (`zellige.stochastic`), with this number of samples. Maps are ``L`` and ``X`` by tiles,
        with a row of ``X`` for 256 right-hand sides, and ``pivots``. The matrix and ``b`` count as exact.

        Raises
        ------
        ValueError
            With `trust`, for rules other than fp32 and fp64.
        """
        b, is_vector = self._right_hand_sides(b)
        if trust:
            _check_trusted(self._rule)
            return stochastic._trust(self._factor.trust(b, *stochastic._options(samples, seed)))
        x = self._factor.solve(b)
        return x[:, 0] if is_vector else x

    def refine(self, b: Any, tol: float = 1e-12) -> _np.ndarray:
        """``A^-1 b`` by iterative refinement in float64, to a relative residual of `tol` of each column.

        Raises
        ------
        Error
            If that is not reached.
        """
        b, is_vector = self._right_hand_sides(b)
        x, residual, steps = self._factor.refine(b, tol)
        if not residual <= tol:
            remedy = "take a larger tol" if self._rule == "fp64" else "take a rule with more precision"
            raise Error(f"the residual is {residual:.1e} after {steps} steps of refinement, not {tol:.1e}: {remedy}")
        return x[:, 0] if is_vector else x


# How far opposite elements may be apart, beside the largest element, by the precision of the matrix: sums in two
# orders (a product of a matrix with its transpose) differ by rounding, which is not refused.
_ASYMMETRY = {_np.dtype(_np.float64): 1e-5, _np.dtype(_np.float32): 1e-3, _np.dtype(_np.float16): 1e-1}


def _check_trusted(rule: str) -> None:
    if rule not in ("fp32", "fp64"):
        raise ValueError(f"trust: the rule {rule}; digits are judged with the rules fp32 and fp64")


@_overload
def cholesky(a: Any, rule: str = ..., tile: int | None = ..., *, trust: Literal[False] = ..., samples: int = ...,
             seed: int = ...) -> Cholesky: ...
@_overload
def cholesky(a: Any, rule: str = ..., tile: int | None = ..., *, trust: Literal[True], samples: int = ...,
             seed: int = ...) -> Trust: ...


def cholesky(a: Any, rule: str = "fp32", tile: int | None = None, *, trust: bool = False, samples: int = 8,
             seed: int = 0) -> Cholesky | Trust:
    """Factor a symmetric positive definite matrix.

    Parameters
    ----------
    a : array_like, (n, n)
        Both triangles; the lower one is what is factored.
    rule : str
        Precision of the tile products: ``fp32``, ``hp1``, ``hp1:band=2``, ``hp1:operand=1e-2,else=x3``, ...
        Factors are in float32, with ``fp64`` in float64; `Cholesky.refine` has answers in float64 in any case. Rows
        and columns are multiplied by powers of two before, so that matrices and right-hand sides of any size, and of
        rows and columns of any sizes, are solved for.
    tile : int, optional
        Rows of a tile; 256 by default. A rule is about products of tiles, which there are from three tiles along a
        side on: a matrix of 512 rows or fewer needs smaller ones.
    trust : bool
        Return, in place of the factor, how many of its digits are exact: the matrix is also factored in stochastic
        arithmetic (`zellige.stochastic`). Maps are ``L`` by tiles, and ``pivots``. The matrix counts as exact.
        `Cholesky.solve` has the digits of a solution.
    samples, seed : int
        Of the stochastic arithmetic: 3, 8 or 16 samples, and the seed of the random bits.

    Raises
    ------
    Error
        Where the matrix is not positive definite in this precision, with the row; for numbers that are not finite
        and rules that there are not.
    ValueError
        For a matrix that is not symmetric: ``|a[i, j] - a[j, i]|`` above 1e-5 of the largest element (1e-3 in
        float32, 0.1 in float16). ``(a + a.T) / 2`` is symmetric; ``l + numpy.tril(l, -1).T`` where there is only a
        lower triangle. With `trust`, for rules other than fp32 and fp64.
    TypeError
        For complex numbers, and for what is no array of numbers.

    Warns
    -----
    UserWarning
        If a rule has lowered no product, as there is none or its condition held for none.
    """
    if trust:
        _check_trusted(rule)
    options = stochastic._options(samples, seed)
    factor = Cholesky.__new__(Cholesky)
    factor._factored("a", a, rule, tile, stacklevel=3)
    return stochastic._trust(factor._factor.trust(None, *options)) if trust else factor


@_dataclass(frozen=True, repr=False)
class SolveResult:
    """What `solve` found.

    Attributes
    ----------
    x : ndarray
        The answer, or the best one found. Complex where the matrix or ``b`` is.
    converged : bool
        Whether the recomputed residual is below the tolerance; for several right-hand sides, of all of them.
    residual : float
        The largest relative residual ``|b - A x| / |b|``, recomputed from the answer.
    columns : list of dict
        For each right-hand side: ``steps``, ``method``, ``precond``, ``history`` and more.
    """

    x: _np.ndarray
    converged: bool
    residual: float
    columns: list[dict[str, Any]]

    def __repr__(self) -> str:
        ways = sorted({f"{each['method']} with {each['precond']}, {each['steps']} steps" for each in self.columns})
        more = f" and {len(ways) - 1} more" if len(ways) > 1 else ""
        return (f"<SolveResult x of shape {self.x.shape}, converged {self.converged}, residual {self.residual:.1e}: "
                f"{ways[0] if ways else 'no right-hand sides'}{more}>")


def _sparse(a: Any) -> Any:
    """A csr_array of numbers; nothing is lost of them."""
    from scipy.sparse import csr_array, issparse

    # (data, (rows, columns)) and the others that scipy takes are tuples.
    if not issparse(a) and not isinstance(a, tuple):
        if hasattr(a, "matvec") or callable(a):
            raise TypeError(f"a: {type(a).__name__} without elements; give a sparse matrix of scipy, or an array with "
                            "two dimensions: method and preconditioner are chosen by the elements. Of a "
                            "LinearOperator with few rows, a @ numpy.eye(n) is the matrix")
        a = _arrays.numbers("a", a)
        if a.ndim != 2:
            raise ValueError(f"a: a matrix has two dimensions, not {a.ndim}")
    a = csr_array(a)
    if a.dtype.kind not in "biufc":
        raise TypeError(f"a: a matrix of {a.dtype} where numbers are needed: a.astype(float) makes them")
    if a.ndim != 2:
        raise ValueError(f"a: a matrix has two dimensions, not {a.ndim}")
    return a


def _interleaved(z: _np.ndarray) -> _np.ndarray:
    """Real and imaginary parts of each row in turn."""
    parts = _np.empty((2 * z.shape[0], z.shape[1]))
    parts[0::2], parts[1::2] = z.real, z.imag
    return parts


_Path = str | _os.PathLike[str]


def _setups(setup: _Path | None, save_setup: _Path | None, others: dict[str, Any]) -> dict[str, Any]:
    """The files of set-ups that are given, as options of `solve`."""
    files = {"setup": setup, "save_setup": save_setup}
    given = {name: _os.fspath(path) for name, path in files.items() if path is not None}
    if len(given) == 2:
        raise ValueError("setup and save_setup: give one of them")
    if "setup" in given and others:
        raise ValueError(f"setup and {next(iter(others))}: give one of them")
    return given


def _near_null(near_null: Any, coordinates: Any, precond: str | None) -> dict[str, Any]:
    """The options of `solve` that are given, with arrays of float64."""
    given = {name: each for name, each in (("near_null", near_null), ("coordinates", coordinates)) if each is not None}
    if len(given) == 2:
        raise ValueError("near_null and coordinates: give one of them")
    for name, each in given.items():
        if precond not in (None, "auto", "amg"):
            raise ValueError(f"{name}: for precond='amg', not {precond!r}")
        if name == "coordinates" or not isinstance(each, str):
            array = _np.asarray(_arrays.numbers(name, each))
            if array.dtype.kind == "c" or array.ndim not in (1, 2):
                raise ValueError(f"{name}: real numbers in one or two dimensions, not {array.dtype} of {array.shape}")
            given[name] = _np.ascontiguousarray(array.reshape(len(array), -1), dtype=_np.float64)
    return given


@_overload
def solve(a: Any, b: Any, tol: float = ..., *, method: str | None = ..., precond: str | None = ...,
          operator: str | None = ..., scale: str | None = ..., near_null: Any = ..., coordinates: Any = ...,
          setup: _Path | None = ..., save_setup: _Path | None = ..., max_steps: int | None = ...,
          max_time: float | None = ..., trust: Literal[False] = ..., samples: int = ...,
          seed: int = ...) -> SolveResult: ...
@_overload
def solve(a: Any, b: Any, tol: float = ..., *, method: str | None = ..., precond: str | None = ...,
          operator: str | None = ..., scale: str | None = ..., near_null: Any = ..., coordinates: Any = ...,
          setup: _Path | None = ..., save_setup: _Path | None = ..., max_steps: int | None = ...,
          max_time: float | None = ..., trust: Literal[True], samples: int = ..., seed: int = ...) -> Trust: ...


def solve(a: Any, b: Any, tol: float = 1e-10, *, method: str | None = None, precond: str | None = None,
          operator: str | None = None, scale: str | None = None, near_null: Any = None, coordinates: Any = None,
          setup: _Path | None = None, save_setup: _Path | None = None, max_steps: int | None = None,
          max_time: float | None = None, trust: bool = False, samples: int = 8,
          seed: int = 0) -> SolveResult | Trust:
    """Solve ``A x = b`` with a sparse matrix; method and preconditioner by the matrix where none are given.

    A complex system, also a real matrix with a complex ``b``, is solved as the real one of twice the size, as
    ``zellige solve`` does: ``[[re, -im], [im, re]]`` in place of each element. Norms, residuals and answers are the
    same numbers, and a Hermitian matrix is a symmetric one.

    Parameters
    ----------
    a : sparse matrix of scipy, or array_like, (n, n)
        Real or complex; also the tuples that ``scipy.sparse.csr_array`` takes.
    b : array_like, (n,) or (n, k)
        Real or complex.
    tol : float
        Of the recomputed residual, relative to ``b`` (2-norms).
    method, precond, operator, scale : str, optional
        As options of ``zellige solve``: ``cg``, ``gmres:60``; ``ic0``, ``amg``; ``ap7:cw:2^-24``; ``both``.
    near_null : str or array_like, (n, k), optional
        For ``amg``: vectors that the matrix maps to nearly zero, beside the constants of each component; ``constant``
        for no others, ``search`` to find them from the matrix (default). With neither this nor `coordinates` the
        matrix decides whether ``amg`` is taken. Real systems only.
    coordinates : array_like, (nodes, 2) or (nodes, 3), optional
        In place of `near_null`: places of the nodes, whose rows follow each other; their rotations are the vectors.
    setup, save_setup : path, optional
        For ``amg``: a file with the set-up of an earlier solve, and the file (npz) that a new one is written to. The
        matrix may have other values at the same places.
    max_steps : int, optional
    max_time : float, optional
        In seconds.
    trust : bool
        Return, in place of the answer, how many of its digits are exact: the system is solved in plain and in
        stochastic arithmetic (`zellige.stochastic`), as it is given, with no preconditioner but ``jacobi``. Maps are
        ``x`` and, of conjugate gradients, their coefficients by step. Real systems and one right-hand side.
    samples, seed : int
        Of the stochastic arithmetic: 3, 8 or 16 samples, and the seed of the random bits.

    Raises
    ------
    Error
        For options without meaning, numbers that are not finite, and a matrix with which no system can be solved.
    ValueError
        For a matrix that is not square, and right-hand sides of another length.
    TypeError
        For what has no elements (a ``LinearOperator``), and for elements that are no numbers.
    """
    from scipy.sparse import csr_array, kron

    a = _sparse(a)
    rows, width = a.shape
    if rows != width:
        raise ValueError(f"a matrix of {rows} x {width} is not square")
    columns, is_vector = _columns(_arrays.numbers("b", b), rows)
    is_complex = "c" in (a.dtype.kind, columns.dtype.kind)
    if trust and (is_complex or columns.shape[1] != 1):
        problem = "a complex system" if is_complex else f"{columns.shape[1]} right-hand sides"
        raise ValueError(f"trust: {problem}; digits are judged for one real right-hand side, b[:, 0] say, of a real matrix")
    near = _near_null(near_null, coordinates, precond)
    if near and (is_complex or trust):
        raise ValueError(f"{next(iter(near))}: for real systems, and not with trust")
    setups = _setups(setup, save_setup, near)
    if setups and trust:
        raise ValueError(f"{next(iter(setups))}: not with trust")
    if setups and precond in (None, "auto"):
        precond = "amg"
    if is_complex:
        if not _np.isfinite(a.data).all():
            at = int(_np.isfinite(a.data).argmin())
            row = int(_np.searchsorted(a.indptr, at, side="right")) - 1
            raise Error(f"a[{row}, {a.indices[at]}] is {a.data[at]}: all numbers have to be finite")
        i = csr_array([[0.0, -1.0], [1.0, 0.0]])
        a = csr_array(kron(a.real, csr_array(_np.eye(2))) + kron(a.imag, i))
        columns = _interleaved(columns)
    # Duplicates are added up in place: not in the caller's matrix.
    a = csr_array(a, dtype=_np.float64, copy=not a.has_canonical_format)
    a.sum_duplicates()
    columns = _np.asarray(columns, dtype=_np.float64)
    parts = (a.indptr.astype(_np.int64), a.indices.astype(_np.int64), a.data)
    given = dict(tol=tol, method=method, precond=precond, operator=operator, scale=scale,
                 max_steps=max_steps, max_time=max_time, **near, **setups)
    if trust:
        return stochastic._trust(_zellige.trust(parts, a.shape[0], columns[:, 0], given,
                                                *stochastic._options(samples, seed)))
    x = _np.empty(columns.shape)
    found = _zellige.solve(parts, a.shape[0], columns, x, given)
    if is_complex:
        x = x[0::2] + 1j * x[1::2]
    residuals = [each["residual"] / (each["rhs_norm"] or 1.0) for each in found]
    converged = all(each["converged"] for each in found)
    return SolveResult(x[:, 0] if is_vector else x, converged, max(residuals, default=0.0), found)


from . import psa, stochastic, tor  # noqa: E402
