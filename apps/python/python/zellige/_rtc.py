"""Products of reconstructors with slopes in real time."""

from __future__ import annotations

import os as _os
from typing import Any

import numpy as _np

from . import _arrays, _zellige
from ._loop import _whole


def _source(reconstructor: Any) -> Any:
    if isinstance(reconstructor, (str, _os.PathLike)):
        return _os.fspath(reconstructor)
    matrix = _arrays.real("reconstructor", getattr(reconstructor, "matrix", reconstructor), "give its real part")
    if matrix.ndim != 2:
        raise ValueError(f"reconstructor: an array of shape {matrix.shape}, where commands x slopes are needed")
    return matrix


class Rtc:
    """A reconstructor that is multiplied by slopes, frame after frame, as by ``zellige tor rtc``.

    A frame allocates nothing but its result. Products are in float32.

    Parameters
    ----------
    reconstructor : path, Reconstructor or ndarray (m, n)
        A file of ``zellige tor build``, in few bits (``.npz``) too, or a matrix.
    workers : int
        Number of threads, the calling one included. They keep their cores for about 1 ms after a frame.

    Raises
    ------
    Error
        For a file that cannot be read.
    ValueError
        For matrices and slopes that do not fit.
    """

    def __init__(self, reconstructor: Any, *, workers: int = 1) -> None:
        self._rtc = _zellige.Rtc(_source(reconstructor), _whole("workers", workers, 1))

    def __repr__(self) -> str:
        return "<Rtc, {} commands of {} slopes>".format(*self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of commands and of slopes."""
        return self._rtc.shape

    def step(self, slopes: Any) -> _np.ndarray:
        """The commands of a frame, float32, (m,), from its slopes, (n,)."""
        slopes = _arrays.real_numbers("slopes", slopes, "give slopes.real")
        if slopes.shape != self.shape[1:]:
            raise ValueError(f"slopes: an array of shape {slopes.shape}; there are {self.shape[1]} slopes")
        return self._rtc.step(_np.ascontiguousarray(slopes, dtype=_np.float32))

    def swap(self, reconstructor: Any) -> None:
        """Takes another reconstructor of the same shape from the next frame on; also from another thread."""
        self._rtc.swap(_source(reconstructor))
