"""Numbers that carry their rounding errors: how many digits of a result are exact.

>>> import zellige
>>> with zellige.stochastic.Scope(seed=1) as scope:
...     x = zellige.Stochastic([1.0, 2.0]) / 3
...     d = x[0] * 3 - (x[0] + x[0] + x[0])
>>> x
Stochastic([0.333333333333333, 0.666666666666667])
>>> print(d, d.digits(), d == 0)
@.0 0 True
>>> scope.report().counts
{'cancellation': 1}

Each number has several samples; each operation rounds each of them up or down at random. The digits in which they
agree are exact. Data count as exact, except with `Stochastic.perturbed`.
"""

from __future__ import annotations

import json as _json
import operator as _operator
import sys as _sys
from contextvars import ContextVar as _ContextVar
from dataclasses import dataclass as _dataclass
from itertools import islice as _islice
from typing import Any, Iterable, Iterator

import numpy as _np
from numpy.lib.mixins import NDArrayOperatorsMixin as _NDArrayOperatorsMixin

from . import _arrays, _zellige

__all__ = ["CATEGORIES", "DigitMap", "Report", "Scope", "Stochastic", "Trust"]

#: Names of the kinds of instabilities. The first seven are those of CADNA.
CATEGORIES: tuple[str, ...] = tuple(_zellige.CATEGORIES)

# Integers up to this one are float64 numbers.
_LARGEST_INTEGER = 2**53


@_dataclass(frozen=True)
class Report:
    """Operations that cannot be trusted. ``str`` of it is a text with the first places of each category.

    Attributes
    ----------
    sites : list of dict
        Counts by category and place: ``category``, ``place`` (``file``, ``line``, ``column``), ``count`` and ``first``
        (``task`` and ``element``: number of the operation in its scope, and of the element of its result).
    """

    sites: list[dict[str, Any]]

    @property
    def counts(self) -> dict[str, int]:
        """Counts of the categories that have occurred."""
        counts: dict[str, int] = {}
        for site in self.sites:
            counts[site["category"]] = counts.get(site["category"], 0) + site["count"]
        return counts

    def __str__(self) -> str:
        return _zellige.report_text(_json.dumps({"sites": self.sites})).rstrip()


@_dataclass(frozen=True, repr=False)
class DigitMap:
    """Exact digits of each number of one result.

    Attributes
    ----------
    name, unit : str
        The result, and the word for one row of the map: ``row``, ``tile``, ``hit``.
    digits : ndarray of int
        With one dimension for a vector, else with two.
    all : int
        Digits that the type holds.
    """

    name: str
    unit: str
    digits: _np.ndarray
    all: int

    def histogram(self) -> dict[int, int]:
        """Count of the numbers with each number of digits."""
        digits, counts = _np.unique(self.digits, return_counts=True)
        return dict(zip(digits.tolist(), counts.tolist()))

    def __repr__(self) -> str:
        of_digits = ", ".join(f"{count} with {digits}" for digits, count in self.histogram().items())
        return f"<DigitMap of {self.name}: {of_digits or 'no numbers'} of {self.all} digits>"


@_dataclass(frozen=True, repr=False)
class Trust:
    """Digits of the results of a run. ``str`` of it is the text of ``zellige trust``.

    Attributes
    ----------
    maps : dict of DigitMap
        The digits of each result, by its name.
    conclusions : list of str
        Consequences, the most important first.
    instabilities : Report
        Operations that cannot be trusted, by their places in the source of zellige.
    samples, seed : int
    seconds, plain_seconds : float
        Time of the stochastic run, and of the one without samples.
    converged : bool or None
        Whether an iterative method reached its tolerance; None where there is none.
    """

    maps: dict[str, DigitMap]
    conclusions: list[str]
    instabilities: Report
    samples: int
    seed: int
    seconds: float
    plain_seconds: float
    _text: str
    converged: bool | None = None

    def __repr__(self) -> str:
        return f"<Trust of {', '.join(self.maps)}: {self.conclusions[0] if self.conclusions else 'no conclusion'}>"

    def __str__(self) -> str:
        return self._text


def _digit_map(written: dict[str, Any]) -> DigitMap:
    rows, columns = written["shape"]
    digits = _np.array(written["digits"], dtype=_np.int64).reshape(rows, columns)
    return DigitMap(written["name"], written["unit"], digits[:, 0] if columns == 1 else digits, written["all"])


def _trust(text: str) -> Trust:
    """The judgement that the compiled part has returned."""
    written = _json.loads(text)
    maps = [_digit_map(each) for each in written.pop("maps")]
    instabilities = Report(written.pop("instabilities")["sites"])
    return Trust(maps={each.name: each for each in maps}, instabilities=instabilities, _text=_zellige.trust_text(text),
                 **written)


def _options(samples: Any, seed: Any) -> tuple[int, int]:
    """The options of a run with ``trust=True``."""
    return _sample_count(samples), _seed(seed)


def _sample_count(samples: Any) -> int:
    if samples not in (3, 8, 16):
        raise ValueError(f"samples: {samples!r}; 3, 8 or 16 are possible")
    return int(samples)


def _seed(seed: Any) -> int:
    number = _operator.index(seed)
    if not 0 <= number < 2**64:
        raise ValueError(f"seed: {number}; 0 to 2^64 - 1 are possible")
    return number


def _place() -> tuple[str, int, int]:
    """File, line and column of the program: of the innermost function that is not of zellige or numpy."""
    frame: Any = _sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in ("zellige", "numpy"):
        frame = frame.f_back
    column = None
    # From Python 3.11 on.
    if hasattr(frame.f_code, "co_positions"):
        _, _, column, _ = next(_islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    return frame.f_code.co_filename, frame.f_lineno, 1 + (column or 0)


class Scope:
    """Random bits of all operations within ``with``, and their instabilities.

    Scopes nest: an operation belongs to the innermost one. A scope belongs to the thread (and to the task of asyncio)
    that has entered it; others may enter it too. The same operations in the same order, on one thread, repeat the bits
    of the seed. Outside of all scopes numbers are perturbed with seed 0, and nothing is counted.

    Parameters
    ----------
    seed : int
        Of the random bits.
    perturbation : str
        ``random`` (default): each result that is not exact is rounded up or down with probability 1/2. ``none``: the
        plain results. ``monte-carlo:T``: Monte Carlo arithmetic with a virtual precision of ``T`` bits. ``vprec:T:R``:
        results rounded to ``T`` bits, with an exponent of ``R`` bits.
    categories : iterable of str, optional
        The kinds of instabilities that are counted, of `CATEGORIES`; all by default.

    Raises
    ------
    ValueError
        For seeds, perturbations and categories that there are not.
    """

    def __init__(self, seed: int = 0, *, perturbation: str = "random", categories: Iterable[str] | None = None) -> None:
        names = CATEGORIES if categories is None else (categories,) if isinstance(categories, str) else categories
        self._scope = _zellige.Scope(_seed(seed), perturbation, list(names), _place)

    def __enter__(self) -> Scope:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        entered = _entered.get()
        if not entered or entered[-1] is not self:
            raise RuntimeError("this scope is not the innermost one of this thread: leave scopes in reverse order, in "
                               "the thread that has entered them, as `with` does")
        _entered.set(entered[:-1])

    def report(self) -> Report:
        """The instabilities so far."""
        return Report(_json.loads(self._scope.report())["sites"])


_entered: _ContextVar[tuple[Scope, ...]] = _ContextVar("zellige.stochastic", default=())
_OUTSIDE = Scope(categories=())


def _scope() -> Any:
    """The compiled part of the innermost scope."""
    return (_entered.get() or (_OUTSIDE,))[-1]._scope


class Stochastic(_NDArrayOperatorsMixin):
    """An array of stochastic numbers, or one number (an array without dimensions).

    Operators, comparisons and numpy's ufuncs broadcast as numpy does: ``+ - * / ** @ abs``, ``numpy.sqrt``, ``exp``,
    ``log``, ``sin``, ``maximum`` and others; a `TypeError` lists them. Numbers are equal where their difference has no
    exact digit, and ordered by their means elsewhere; comparisons return arrays of bool. Slices are views, as in numpy.

    Parameters
    ----------
    array : array_like
        Exact data: float64, float32, or whole numbers up to 2^53.
    samples : int
        3, 8 (default) or 16: with 8, one result in 256 may show digits by chance, with 16 one in 65536. The three are
        those of CADNA.

    Raises
    ------
    TypeError
        For complex numbers, other precisions, and what is no array of numbers.
    ValueError
        For other samples, and larger whole numbers.
    """

    __slots__ = ("_samples",)
    _samples: _np.ndarray

    def __init__(self, array: Any, samples: int = 8) -> None:
        array = _arrays.real_numbers("array", array, "judge array.real and array.imag")
        if array.dtype.kind in "biu":
            if ((array > _LARGEST_INTEGER) | (array < -_LARGEST_INTEGER)).any():
                raise ValueError("array: whole numbers above 2^53 are no float64 numbers: array.astype(float) rounds them")
            array = array.astype(_np.float64)
        self._samples = _np.repeat(array.astype(_checked("array", array.dtype))[..., None], _sample_count(samples), -1)

    @classmethod
    def perturbed(cls, array: Any, error: float, samples: int = 8) -> Stochastic:
        """Data with a relative error of at most `error`: ``x (1 + error u)``, with ``u`` uniform in (-1, 1)."""
        if not 0 <= error < _np.inf:
            raise ValueError(f"error: {error}; a finite relative error is needed, 0 or more")
        exact = cls(array, samples)
        return _of(_scope().perturbed(_rows(exact._samples), error), exact.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of numbers."""
        return self._samples.shape[:-1]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._samples.ndim - 1

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._samples.size // self._samples.shape[-1]

    @property
    def dtype(self) -> _np.dtype:
        """Type of the samples."""
        return self._samples.dtype

    @property
    def samples(self) -> _np.ndarray:
        """A copy of the samples, in the last dimension."""
        return self._samples.copy()

    @property
    def value(self) -> Any:
        """Means of the samples, in float64."""
        return _zellige.digits(_rows(self._samples))[0].reshape(self.shape)[()]

    def digits(self) -> Any:
        """Exact decimal digits of each number, 0 to 15 (7 in float32). Exact numbers have all, NaN and infinity none."""
        return _zellige.digits(_rows(self._samples))[1].reshape(self.shape)[()]

    def astype(self, dtype: Any) -> Stochastic:
        """These numbers in float64 or float32; to float32 they are rounded at random."""
        wanted = _checked("dtype", _np.dtype(dtype))
        if wanted == self.dtype or wanted == _np.float64:
            return _of(self._samples.astype(wanted), self.shape)
        return _of(_scope().single(_rows(self._samples)), self.shape)

    def copy(self) -> Stochastic:
        """A copy."""
        return _of(self._samples.copy(), self.shape)

    def reshape(self, *shape: Any) -> Stochastic:
        """These numbers in another shape, row by row."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        try:
            return _of(self._samples.reshape(*wanted, self._samples.shape[-1]))
        except ValueError:
            raise ValueError(f"reshape: {self.size} numbers do not fill the shape {tuple(wanted)}") from None

    @property
    def T(self) -> Stochastic:
        """The transpose, a view."""
        return _of(self._samples.transpose(*range(self.ndim)[::-1], self.ndim))

    def sum(self, axis: int | None = None, *, out: None = None) -> Stochastic:
        """Sum of all numbers, or along one axis, from the first to the last. `out` has to be None."""
        if out is not None:
            raise TypeError("sum: out has to be None: assign the result")
        if axis is None:
            lines, shape = self._samples, ()
        elif isinstance(axis, int) and -self.ndim <= axis < self.ndim:
            lines = _np.moveaxis(self._samples, axis % self.ndim, -2)
            shape = lines.shape[:-2]
        else:
            raise ValueError(f"sum: axis {axis} of an array of {self.ndim} dimensions; one axis or None is possible")
        length = self.size if axis is None else self.shape[axis]
        if self.size == 0:
            return _zeros(shape, self)
        return _of(_scope().compute("sum", [_rows(lines)], length), shape)

    def dot(self, other: Any) -> Stochastic:
        """``self @ other``."""
        return self @ other

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        if method != "__call__" or options:
            what = f"numpy.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")
            given = f" with {', '.join(options)}" if options else ""
            raise TypeError(f"{what}{given} is not computed with stochastic numbers: take x.sum(axis), or call "
                            f"numpy.{ufunc.__name__} with the operands alone")
        (target,) = out or (None,)
        if out and not (isinstance(target, Stochastic) and any(isinstance(each, Stochastic) for each in inputs)):
            raise TypeError(f"numpy.{ufunc.__name__} with out: neither out nor the operands may be plain arrays alone: "
                            "assign the result to x[...]")
        result = _computed(ufunc.__name__, inputs)
        if target is None:
            return result
        if target.shape != result.shape:
            raise ValueError(f"out: an array of shape {target.shape} for results of shape {result.shape}")
        target[...] = result
        return target

    def __array__(self, dtype: Any = None, copy: Any = None) -> _np.ndarray:
        raise TypeError("a Stochastic where an array is needed, which has no place for samples: give x.value (means) or "
                        "x.samples; to make one array of several numbers, assign them to elements of a Stochastic")

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of one stochastic number")
        return len(self._samples)

    def __iter__(self) -> Iterator[Stochastic]:
        return (self[at] for at in range(len(self)))

    def __getitem__(self, key: Any) -> Stochastic:
        samples = self._samples[_key(key)]
        # One number is a copy, as it is in numpy.
        return _of(samples if samples.ndim > 1 else samples.copy())

    def __setitem__(self, key: Any, value: Any) -> None:
        number = value if isinstance(value, Stochastic) else _number(value, self.dtype, self._samples.shape[-1])
        _check_samples([self, number])
        self._samples[_key(key)] = number.astype(self.dtype)._samples

    def _one(self, name: str) -> Stochastic:
        if self.size != 1:
            raise ValueError(f"{name}() of {self.size} stochastic numbers: take one element, or x.value")
        return self.reshape(())

    def __bool__(self) -> bool:
        """Whether the number has an exact digit and is not 0."""
        return bool(self._one("bool") != 0)

    def __float__(self) -> float:
        """The mean."""
        return float(self._one("float").value)

    def __str__(self) -> str:
        return self._text(" ")

    def __repr__(self) -> str:
        dtype = "" if self.dtype == _np.float64 else f", dtype={self.dtype}"
        return f"Stochastic({self._text(', ')}{dtype})"

    def _text(self, separator: str) -> str:
        rows = _rows(self._samples)

        def text(at: Any) -> str:
            return _zellige.text(rows[at:at + 1])[0]

        if not self.ndim:
            return text(0)
        # Numbers that numpy leaves out of a long array are not written.
        numbered = _np.arange(self.size).reshape(self.shape)
        return _np.array2string(numbered, separator=separator, formatter={"int": text})


def _of(samples: _np.ndarray, shape: tuple[int, ...] | None = None) -> Stochastic:
    """The numbers of these samples."""
    number = Stochastic.__new__(Stochastic)
    number._samples = samples if shape is None else samples.reshape(*shape, samples.shape[-1])
    return number


def _zeros(shape: tuple[int, ...], like: Stochastic) -> Stochastic:
    return _of(_np.zeros((*shape, like._samples.shape[-1]), like.dtype))


def _rows(samples: _np.ndarray) -> _np.ndarray:
    """The samples of a number in each row."""
    return _np.ascontiguousarray(samples).reshape(-1, samples.shape[-1])


def _key(key: Any) -> tuple[Any, ...]:
    key = key if isinstance(key, tuple) else (key,)
    key = key if any(each is Ellipsis for each in key) else (*key, Ellipsis)
    return (*key, slice(None))


def _checked(name: str, dtype: _np.dtype) -> _np.dtype:
    if dtype not in (_np.float64, _np.float32):
        raise TypeError(f"{name}: stochastic numbers are float64 or float32, not {dtype}: give "
                        f"{'float64' if name == 'dtype' else f'{name}.astype(float)'}")
    return dtype


def _number(value: Any, dtype: _np.dtype, samples: int) -> Stochastic:
    """A plain operand, whose values are rounded to nearest where the type of the others is narrower."""
    return Stochastic(_arrays.real_numbers("operand", value, "stochastic numbers are real").astype(dtype), samples)


def _check_samples(numbers: list[Stochastic]) -> None:
    counts = sorted({each._samples.shape[-1] for each in numbers})
    if len(counts) > 1:
        raise ValueError(f"numbers of {counts[0]} and of {counts[1]} samples: make both with the same samples=")


def _alike(inputs: tuple[Any, ...]) -> list[Stochastic]:
    """Operands as stochastic numbers of one type. As in numpy, numbers of Python have the type of the others."""
    stochastic = [each for each in inputs if isinstance(each, Stochastic)]
    _check_samples(stochastic)
    others = [each for each in inputs if not isinstance(each, Stochastic) and type(each) not in (bool, int, float)]
    arrays = [_arrays.real_numbers("operand", each, "stochastic numbers are real") for each in others]
    dtype = _checked("operand", _np.result_type(*[each.dtype for each in stochastic + arrays]))
    samples = stochastic[0]._samples.shape[-1]
    return [each.astype(dtype) if isinstance(each, Stochastic) else _number(each, dtype, samples) for each in inputs]


# Whether numbers are so: in all samples, or in one.
_CLASSES = {"isfinite": (_np.isfinite, _np.all), "isinf": (_np.isinf, _np.any), "isnan": (_np.isnan, _np.any)}


def _computed(name: str, inputs: tuple[Any, ...]) -> Any:
    """The result of a ufunc."""
    numbers = _alike(inputs)
    if name == "matmul":
        return _product(*numbers)
    if name in _CLASSES:
        holds, of_samples = _CLASSES[name]
        return of_samples(holds(numbers[0]._samples), axis=-1)
    try:
        shape = _np.broadcast_shapes(*[each.shape for each in numbers])
    except ValueError:
        shapes = " and ".join(str(each.shape) for each in numbers)
        raise ValueError(f"numpy.{name}: operands of shapes {shapes} do not fit each other: reshape one, x[:, None] "
                         "say") from None
    operands = [_rows(_np.broadcast_to(each._samples, (*shape, each._samples.shape[-1]))) for each in numbers]
    name = {"true_divide": "divide", "pow": "power"}.get(name, name)
    result = _scope().compute(name, operands, 0)
    return result.reshape(shape)[()] if result.dtype == bool else _of(result, shape)


def _product(a: Stochastic, b: Stochastic) -> Stochastic:
    """The product of matrices and vectors: plain sums from left to right, each product and each sum rounded."""
    if a.ndim not in (1, 2) or b.ndim not in (1, 2) or a.shape[-1] != b.shape[0]:
        raise ValueError(f"@: shapes {a.shape} and {b.shape}; vectors or matrices are needed, with as many columns on the "
                         "left as rows on the right")
    shape = a.shape[:-1] + b.shape[1:]
    if a.size == 0 or b.size == 0:
        return _zeros(shape, a)
    return _of(_scope().compute("matmul", [_rows(a._samples), _rows(b._samples)], b.shape[0]), shape)
