"""Pulse-shape analysis of segmented germanium detectors: where in a crystal gamma rays gave their energy.

>>> import numpy as np, zellige
>>> rng = np.random.default_rng(1)
>>> basis, positions = rng.random((50, 2, 30), dtype=np.float32), rng.random((50, 3))
>>> search = zellige.psa.Search(basis, positions, method="exact")
>>> search.locate(basis[[7, 3]]).index
array([7, 3])
"""

from __future__ import annotations

from dataclasses import dataclass as _dataclass
from typing import Any, Literal, overload as _overload

import numpy as _np

from . import _arrays, _zellige
from .stochastic import Trust, _options, _trust

__all__ = ["Crystal", "CrystalHits", "Hits", "Search"]

# The whole charge in arrays of two-byte integers.
_WHOLE = 16384


@_dataclass(frozen=True, repr=False)
class Hits:
    """The point of the basis that is most like each event. Each attribute has one element for each event.

    Attributes
    ----------
    index : ndarray of int
        The point.
    position : ndarray, (n, 3)
        Where it is (mm).
    fom : ndarray
        Its figure of merit, with a charge of 1000: the smallest wins, and of equal ones the lowest index.
    second : ndarray of int
        The point that comes next, of those that were compared last; -1 where there was no other.
    gap : ndarray
        How much larger its figure of merit is.
    spread : ndarray
        How far points lie from the best one (mm): the root of the mean square, over those that were
        compared last and whose figures of merit are up to 2 % larger.
    flags : dict of ndarray of bool
        ``certified`` (proven to be the answer of a full search in float64), ``tie`` (another point has the
        same figure of merit), ``fell-back``, ``coarse-only``, ``too-many-segments``, ``pair``, ``saturated``.
    """

    index: _np.ndarray
    position: _np.ndarray
    fom: _np.ndarray
    second: _np.ndarray
    gap: _np.ndarray
    spread: _np.ndarray
    flags: dict[str, _np.ndarray]

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"<Hits of {len(self)} events>"


@_dataclass(frozen=True, repr=False)
class CrystalHits(Hits):
    """As `Hits`, with one element for each hit: by event, and of each event the largest energy first.

    Attributes
    ----------
    event : ndarray of int
        The event. One without a hit above the threshold is not there.
    segment : ndarray of int
        The segment, 0 to 35.
    energy : ndarray
        What it has collected (keV).
    """

    event: _np.ndarray
    segment: _np.ndarray
    energy: _np.ndarray

    def __repr__(self) -> str:
        return f"<CrystalHits: {len(self)} hits of {len(_np.unique(self.event))} events>"


def _array(name: str, array: Any, dtype: Any, axes: tuple[str, ...]) -> _np.ndarray:
    array = _arrays.real_numbers(name, array, f"give {name}.real, if its imaginary parts mean nothing")
    if array.ndim != len(axes):
        wanted = ", ".join(axes)
        raise ValueError(f"{name}: an array of shape {array.shape}; ({wanted}) is needed")
    if name == "basis" and array.dtype == _np.int16:
        array = array / _np.float32(_WHOLE)
    if dtype == _np.int64 and array.dtype.kind == "f":
        whole = _np.isfinite(array) & (array == _np.trunc(array))
        if not whole.all():
            at = int(whole.argmin())
            raise ValueError(f"{name}: element {at} is {array[at]}; whole numbers are needed")
    return _np.ascontiguousarray(array, dtype=dtype)


def _basis(array: Any) -> _np.ndarray:
    return _array("basis", array, _np.float32, ("points", "channels", "samples"))


def _positions(array: Any) -> _np.ndarray:
    return _array("positions", array, _np.float32, ("points", "3"))


def _events(array: Any) -> _np.ndarray:
    return _array("events", array, _np.float32, ("events", "channels", "samples"))


def _search(method: str = "screen", p: float = 0.3, precision: str = "fp32", lut: str = "none",
            screen: str = "quarter", top: int = 8, cells: int = 1, certify: bool = False,
            cap: int = 1000) -> dict[str, Any]:
    return dict(method=method, p=p, precision=precision, lut=lut, screen=screen, top=top, cells=cells,
                certify=certify, cap=cap)


class Search:
    """Searches the points of one segment for those whose signals are most like an event's, on every core.

    The figure of merit of a point is the sum over channels and samples of ``|1000 (event - point)|^p``.

    Parameters
    ----------
    basis : array_like, (points, channels, samples)
        Signals of known points; 1 is the whole charge, in an array of int16 16384 is.
    positions : array_like, (points, 3)
        Where they are (mm).
    method : str
        ``screen`` (default): every point is compared by a cheaper measure, then the best of them by the
        figure of merit. ``fgs``: every point. ``cfgs``: points of a coarse lattice, then the fine ones
        around the best. ``exact``: the answer of ``fgs`` in float64, by a screen and a proof.
    p : float
        Exponent of the figure of merit, above 0 and at most 4; 0.3 by default.
    precision : str
        ``fp32`` (default), ``fp64``, ``fp16``, ``mixed``, ``int16``, ``bf16``.
    lut : str
        Where powers come from: ``none`` (they are computed), ``whole``, ``log``.
    screen : str
        The cheaper measure: ``quarter`` (default), ``bits``, ``linear``, ``square``, ``product``, ``power``.
    top : int
        How many points a screen keeps; 8 by default.
    cells : int
        Around how many coarse points ``cfgs`` compares fine ones; 1 by default.
    certify : bool
        Whether a screen by ``bits`` says which of its answers are proven.
    cap : int
        With more points in question than this, ``exact`` compares every point; 1000 by default.

    Raises
    ------
    Error
        For a basis without points, numbers that are not finite and options without meaning, by name.
    ValueError
        For arrays of another number of dimensions.
    TypeError
        For arrays of complex numbers, texts and objects.
    """

    def __init__(self, basis: Any, positions: Any, **options: Any) -> None:
        #: Where the points are (mm).
        self.positions = _positions(positions)
        self._search = _zellige.Search(_basis(basis), self.positions, _search(**options))

    @_overload
    def locate(self, events: Any, energies: Any = ..., *, trust: Literal[False] = ..., samples: int = ...,
               seed: int = ...) -> Hits: ...
    @_overload
    def locate(self, events: Any, energies: Any = ..., *, trust: Literal[True], samples: int = ...,
               seed: int = ...) -> Trust: ...

    def locate(self, events: Any, energies: Any = None, *, trust: bool = False, samples: int = 8,
               seed: int = 0) -> Hits | Trust:
        """The point that is most like each event.

        Parameters
        ----------
        events : array_like, (n, channels, samples)
            Signals, positive where charge is collected: in keV, or in units of the charge.
        energies : array_like, (n,), optional
            Energies of the events (keV), by which their signals are divided. Without them, signals are in
            units of the charge.
        trust : bool
            Return, in place of the points, how many digits are exact of each best figure of merit and of its
            gap to the second: every point is compared in stochastic arithmetic (`zellige.stochastic`), in the
            search's precision, ``fp32`` or ``fp64``.
        samples, seed : int
            Of the stochastic arithmetic: 3, 8 or 16 samples, and the seed of the random bits.

        Raises
        ------
        Error
            For other channels or samples than the basis has, and, with the event, for samples that are not
            finite and energies that are not above 0; with `trust`, for other precisions.
        """
        events = _events(events)
        energies = _np.ones(len(events)) if energies is None else energies
        energies = _array("energies", energies, _np.float64, ("events",))
        if trust:
            return _trust(self._search.trust(events, energies, *_options(samples, seed)))
        found = self._search.locate(events, energies)
        return Hits(position=self.positions[found["index"]], **found)


class Crystal:
    """Searches events of a whole crystal, 36 segments and the core, on every core of the machine.

    Each segment that has collected enough has a hit. A hit is searched for in what is left of the event once
    the signals of its other hits have been subtracted.

    Parameters
    ----------
    basis : array_like, (points, 37, samples)
        As of `Search`; channels 0 to 35 are the segments, 36 is the core. ``signals.npy`` in a folder of
        ``zellige psa simulate`` is one.
    positions : array_like, (points, 3)
        Where the points are (mm).
    segments : array_like of int, (points,)
        Which segment each point lies in, 0 to 35.
    channels : str
        Which channels are compared: ``neighbours`` (the hit segment, those that touch it, and the core),
        ``hit-core``, ``all``.
    window : int, optional
        How many samples are compared, from the first on; by default 40, or all where there are fewer.
    threshold : float
        Hits below this energy are dropped (keV).
    shifts : int
        Events are also searched for moved by up to so many samples each way.
    align : bool
        Whether events are moved to where the core's signal fits that of the points found best.
    pairs : float, optional
        Two hits are searched for in each segment. They are reported where one hit explains the signals worse
        by more than this factor (1.05, say).
    **options
        As of `Search`.

    Raises
    ------
    Error, ValueError, TypeError
        As `Search`; ValueError also for segments that are no whole numbers.
    """

    def __init__(self, basis: Any, positions: Any, segments: Any, *, channels: str = "neighbours",
                 window: int | None = None, threshold: float = 10.0, shifts: int = 0, align: bool = False,
                 pairs: float | None = None, **options: Any) -> None:
        events = dict(channels=channels, window=window, threshold=threshold, shifts=shifts, align=align,
                      pairs=pairs)
        #: Where the points are (mm).
        self.positions = _positions(positions)
        segments = _array("segments", segments, _np.int64, ("points",))
        self._crystal = _zellige.Crystal(_basis(basis), self.positions, segments, _search(**options), events)

    def locate(self, events: Any) -> CrystalHits:
        """The hits of events. Each call prepares the basis anew, with the proofs of ``exact``: give it many.

        Parameters
        ----------
        events : array_like, (n, 37, samples)
            Signals (keV), positive where charge is collected.

        Raises
        ------
        Error
            For other channels than 37, fewer samples than the window and, with the event, for samples that
            are not finite and a hit in a segment of which the basis has no point.
        """
        # A copy: nobody else may change it while the interpreter's lock is released.
        found = self._crystal.locate(_events(events).copy())
        return CrystalHits(position=self.positions[found["index"]], **found)
