"""Tomographic reconstructors of adaptive optics.

>>> import zellige
>>> r = zellige.tor.Reconstructor("system.toml", precision="hp1:operand=1e-2")  # doctest: +SKIP
>>> slopes = r.matrix @ measurements                                              # doctest: +SKIP
"""

from __future__ import annotations

import json as _json
import os as _os
from typing import Any, Sequence

import numpy as _np

from . import _zellige

__all__ = ["Reconstructor"]


class Reconstructor:
    """``R = Ctm Cmm^-1``, from a parameter file.

    Parameters
    ----------
    system : path
        The system's parameters, as of ``zellige tor``.
    atmosphere : path, optional
        Another file for the atmosphere.
    precision : str
        Rule for the tile products.
    targets : sequence of (x, y), optional
        Directions in arcsec; by default the file's.
    tile : int, optional
        Tile size; by default cut along the sensors.

    Attributes
    ----------
    matrices : list of ndarray, (m, n)
        One for each target.
    results : dict
        What ``zellige tor run --json`` has of a rule: backward error, Strehl ratios, seconds, ...
    """

    def __init__(self, system: str | _os.PathLike[str], atmosphere: str | _os.PathLike[str] | None = None, *,
                 precision: str = "fp32", targets: Sequence[tuple[float, float]] | None = None, tile: int | None = None) -> None:
        directions = None if targets is None else [[float(x), float(y)] for x, y in targets]
        (text, self.matrices), = _zellige.reconstruct(system, atmosphere, [precision], directions, tile)
        self.results: dict[str, Any] = _json.loads(text)
        if not self.matrices:
            raise _zellige.Error(f"{precision}: the covariance matrix is not positive definite in this precision")

    @property
    def matrix(self) -> _np.ndarray:
        """The reconstructor towards the first target."""
        return self.matrices[0]
