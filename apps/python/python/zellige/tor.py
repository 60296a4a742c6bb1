"""Tomographic reconstructors of adaptive optics, and simulated loops.

>>> import zellige
>>> r = zellige.tor.Reconstructor("system.toml", precision="hp1:operand=1e-2")  # doctest: +SKIP
>>> slopes, quality = r.matrix @ measurements, r.strehl                         # doctest: +SKIP
>>> loop = zellige.tor.Loop("system.toml", reconstructor=r)                     # doctest: +SKIP
>>> loop.run(1000)                                                              # doctest: +SKIP
"""

from __future__ import annotations

import json as _json
import os as _os
from dataclasses import dataclass as _dataclass
from typing import Any, Sequence

import numpy as _np

from . import Cholesky as _Cholesky, _arrays, _zellige
from ._loop import Loop
from ._rtc import Rtc

__all__ = ["Covariances", "Loop", "Reconstructor", "Rtc", "covariances"]

_Path = str | _os.PathLike[str]
_Targets = Sequence[tuple[float, float]] | None


def _directions(targets: _Targets) -> list[list[float]] | None:
    return None if targets is None else [[float(x), float(y)] for x, y in targets]


@_dataclass(frozen=True, repr=False)
class Covariances:
    """Covariance matrices of a system in float64 (arcsec^2). Slopes are ordered as in ``zellige tor cov``.

    Attributes
    ----------
    cmm : ndarray, (n, n)
        Measurements with measurements.
    ctm : list of ndarray, (m, n)
        Truth sensor with measurements, for each target.
    ctt : ndarray, (m, m)
        Truth sensor with itself.
    """

    cmm: _np.ndarray
    ctm: list[_np.ndarray]
    ctt: _np.ndarray

    def __repr__(self) -> str:
        return f"<Covariances of {len(self.cmm)} measurements, {len(self.ctm)} targets>"


def covariances(system: _Path, atmosphere: _Path | None = None, *, targets: _Targets = None) -> Covariances:
    """The covariance matrices of a system; parameters as of `Reconstructor`."""
    return Covariances(*_zellige.covariances((system, atmosphere), _directions(targets)))


class Reconstructor:
    """``R = Ctm Cmm^-1``: from what the sensors measure, what one that looks at a target would have.

    Parameters
    ----------
    system : path
        The system's parameters, as of ``zellige tor``.
    atmosphere : path, optional
        Another file for the atmosphere.
    precision : str
        Rule for the tile products: ``fp32``, ``fp64``, ``hp1:operand=1e-2``, ...
    targets : sequence of (x, y), optional
        Directions in arcsec; by default the file's.
    tile : int, optional
        Tile size; by default cut along the sensors.
    refine : int
        Steps of iterative refinement in float64 at most.

    Attributes
    ----------
    matrices : list of ndarray, (m, n)
        One for each target.
    psfs : list of ndarray
        The image of each target, 1 at the peak of the diffraction-limited one.
    psf_pixel : float
        The size of their pixels (arcsec).
    results : dict
        What ``zellige tor run --json`` has of a rule: backward error, Strehl ratios, seconds, ...

    Raises
    ------
    Error
        For parameters without meaning, with file, line and key, and where the matrix is not positive definite
        in this precision.
    """

    def __init__(self, system: _Path, atmosphere: _Path | None = None, *, precision: str = "fp32",
                 targets: _Targets = None, tile: int | None = None, refine: int = 0) -> None:
        found = _zellige.reconstruct((system, atmosphere), precision, _directions(targets), tile, refine)
        text, self.matrices, images = found
        self.results: dict[str, Any] = _json.loads(text)
        self.psfs = [image for image, _ in images]
        self.psf_pixel = images[0][1]

    @classmethod
    def from_covariances(cls, cmm: Any, ctm: Any, *, precision: str = "fp32",
                         tol: float | None = None, tile: int | None = None) -> Reconstructor:
        """The same from matrices of your own, in any unit. There are no images of it, and no Strehl ratios.

        Parameters
        ----------
        cmm : array_like, (n, n)
            Measurements with measurements; symmetric, as of `zellige.cholesky`.
        ctm : ndarray, (m, n), or a list of them
            Truth sensor with measurements, of one target or of several.
        precision : str
            As of `zellige.cholesky`.
        tol : float, optional
            Refine in float64 to this relative residual of ``R Cmm = Ctm``. Without, the answer is as accurate
            as the factor.
        tile : int, optional
            Tile size, as of `zellige.cholesky`.

        Raises
        ------
        Error
            Where `cmm` is not positive definite in this precision, or `tol` is not reached.
        ValueError
            For matrices that do not fit each other, and a `cmm` that is not symmetric.
        TypeError
            For complex numbers, and for what is no array of numbers.
        """
        real = "covariances of slopes are real; give {0}.real if the imaginary parts are 0"
        cmm = _arrays.real_numbers("cmm", cmm, real.format("cmm"))
        parts = [_arrays.real("ctm", each, real.format("ctm")) for each in (ctm if isinstance(ctm, list) else [ctm])]
        for part in parts:
            if part.ndim != 2 or part.shape[1] != len(cmm):
                raise ValueError(f"ctm: an array of shape {part.shape}; (m, {len(cmm)}) is needed")
            _arrays.check_finite("ctm", part)
        factor = _Cholesky.__new__(_Cholesky)
        factor._factored("cmm", cmm, precision, tile, stacklevel=3)
        right = _np.concatenate(parts).T
        found = factor.solve(right) if tol is None else factor.refine(right, tol)
        self = cls.__new__(cls)
        self.matrices = _np.split(found.T, _np.cumsum([len(each) for each in parts])[:-1])
        self.psfs, self.psf_pixel = [], _np.nan
        self.results = {"n": len(cmm), "m": len(parts[0]), "rule": precision, "gemm_share": factor.shares}
        return self

    def __repr__(self) -> str:
        (rows, columns), count = self.matrix.shape, len(self.matrices)
        targets = f"{count} target{'s' if count > 1 else ''}"
        strehl = f", Strehl ratios {self.strehl.round(3).tolist()}" if "targets" in self.results else ""
        return f"<Reconstructor of {targets}, {rows} x {columns}, rule {self.results['rule']}{strehl}>"

    @property
    def matrix(self) -> _np.ndarray:
        """The reconstructor towards the first target."""
        return self.matrices[0]

    @property
    def strehl(self) -> _np.ndarray:
        """The Strehl ratio of each target's image, by its stationary residual."""
        return self._of_targets("strehl_moao")

    @property
    def strehl_exact(self) -> _np.ndarray:
        """The exact long-exposure Strehl ratio of each target."""
        return self._of_targets("strehl_exact")

    @property
    def wavefront_error(self) -> _np.ndarray:
        """The wavefront error towards each target (nm rms), piston removed."""
        return self._of_targets("wfe_nm")

    def _of_targets(self, key: str) -> _np.ndarray:
        if "targets" not in self.results:
            raise _zellige.Error("made of covariance matrices alone: without a telescope there is no image")
        return _np.array([target[key] for target in self.results["targets"]])
