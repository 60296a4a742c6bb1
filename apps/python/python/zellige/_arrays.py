"""Arrays of callers as those that are computed with. What numpy would convert without a word is refused here."""

from __future__ import annotations

from typing import Any

import numpy as _np

from ._zellige import Error


def numbers(name: str, value: Any) -> _np.ndarray:
    """An array of real or complex numbers, in its own precision.

    Raises
    ------
    TypeError
        For what is no array of numbers (texts, objects), sparse matrices and masked elements.
    """
    if hasattr(value, "toarray"):
        raise TypeError(f"{name}: a sparse matrix where an array is needed: give {name}.toarray()")
    if _np.ma.is_masked(value):
        raise TypeError(f"{name}: some elements are masked: give an array without a mask, {name}.filled(0) say")
    array = _np.asarray(value)
    if array.dtype.kind not in "biufc":
        kind = f"an array of {array.dtype}" if array.ndim else f"a value of type {type(value).__name__}"
        raise TypeError(f"{name}: {kind} where an array of numbers is needed: numpy.array({name}, dtype=float) "
                        "makes one of texts and objects that are numbers")
    return array


def real_numbers(name: str, value: Any, instead: str) -> _np.ndarray:
    """As `numbers`, and refuses complex ones, whose imaginary parts would be lost; `instead` is what to do."""
    array = numbers(name, value)
    if array.dtype.kind == "c":
        raise TypeError(f"{name}: complex numbers where real ones are needed: {instead}")
    return array


def real(name: str, value: Any, instead: str) -> _np.ndarray:
    """As `real_numbers`, in float64."""
    return _np.asarray(real_numbers(name, value, instead), dtype=_np.float64)


def check_finite(name: str, array: _np.ndarray) -> None:
    """Raises `Error`, with the first of them, for numbers that are not finite."""
    finite = _np.isfinite(array)
    if not finite.all():
        # argmin finds the first one that is False.
        at = tuple(map(int, _np.unravel_index(finite.argmin(), array.shape)))
        raise Error(f"{name}[{', '.join(map(str, at))}] is {array[at]}: all numbers have to be finite")


def check_symmetric(name: str, array: _np.ndarray, tol: float) -> None:
    """Raises ValueError for a square matrix with ``|a[i, j] - a[j, i]|`` above `tol` times its largest element."""
    worst, where, largest = 0.0, (0, 0), 0.0
    # By blocks of rows: no second matrix is made.
    for begin in range(0, len(array), 256):
        end = begin + 256
        lower = array[begin:end, :end]
        largest = max(largest, float(abs(lower).max()), float(abs(array[:end, begin:end]).max()))
        apart = abs(lower - array[:end, begin:end].T)
        if apart.max() > worst:
            row, column = _np.unravel_index(apart.argmax(), apart.shape)
            worst, where = float(apart.max()), (begin + int(row), int(column))
    if worst > tol * largest:
        (j, i), of = sorted(where), name
        raise ValueError(f"{of}[{i}, {j}] is {array[i, j]} and {of}[{j}, {i}] is {array[j, i]}: the matrix has to "
                         f"be symmetric; ({of} + {of}.T) / 2 is, where that is what you mean")
