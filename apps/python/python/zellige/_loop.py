"""Simulated loops of adaptive optics, frame by frame."""

from __future__ import annotations

import functools as _functools
import json as _json
import operator as _operator
import os as _os
from typing import Any

import numpy as _np

from . import _arrays, _zellige

_Path = str | _os.PathLike[str]


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = _operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: {value!r} where a whole number is needed") from None
    if not least <= number < 2**63:
        raise ValueError(f"{name}: {number}; give {least} or more, below 2**63")
    return number


def _of(name: str, number: Any, count: int) -> int:
    """The number of one of `count` objects, counted from 0."""
    number = _whole(name, number, 0)
    if number >= count:
        raise ValueError(f"{name}: {number}; there are {count}, counted from 0: give {count - 1} at most")
    return number


def _real(name: str, value: Any) -> _np.ndarray:
    return _arrays.real(name, value, f"give {name}.real")


class Loop:
    """A simulated loop, as of ``zellige tor loop``, with arrays in and out between two frames.

    Each frame has the same bits whether it is simulated by `run` or by `step`, on any number of cores.

    Parameters
    ----------
    system : path
        The system's parameters, as of ``zellige tor``; its table ``[loop]`` has those of the loop.
    atmosphere : path, optional
        Another file for the atmosphere.
    reconstructor : Reconstructor, ndarray (m, n) or list of them, optional
        By which commands are computed: one matrix, in an open loop one for each target. Without, commands are
        by the pseudo-inverse of the interaction matrix that the sensors measure.
    mode : {"open", "pseudo-open", "closed"}, optional
    sensor : {"edges", "gradients", "spots"}, optional
    gain : float, optional
    delay : int, optional
        Frames after which slopes move the mirror. These four replace those of the file.
    seed : int
        Of turbulence and noise.
    noise : bool
        Whether slopes have noise.
    skip : int
        Frames that are not exposed, in which the loop converges.
    image_every : int
        An image is added to the exposure every so many frames. Strehl ratios and rms are of all frames.

    Attributes
    ----------
    pupil : ndarray of bool, (p, p)
        Pixels of `wavefront` inside the pupil.
    targets : ndarray, (k, 2)
        Directions in arcsec.
    wavelengths : ndarray
        Of the images, in m.

    Raises
    ------
    Error
        For files that cannot be read and parameters without meaning, with file, line and key.
    ValueError
        For arguments that do not fit the system, here and in all methods.

    Examples
    --------
    A controller of one's own in place of the integrator:

    >>> loop = Loop("scao.toml")                           # doctest: +SKIP
    >>> u = loop.commands                                  # doctest: +SKIP
    >>> for _ in range(1000):                              # doctest: +SKIP
    ...     u = 0.99 * u + 0.4 * loop.command_matrix @ loop.measure()
    ...     loop.step(commands=u)
    >>> loop.strehl(), loop.psf(0)                         # doctest: +SKIP
    """

    def __init__(self, system: _Path, atmosphere: _Path | None = None, *, reconstructor: Any = None,
                 mode: str | None = None, sensor: str | None = None, gain: float | None = None,
                 delay: int | None = None, seed: int = 1, noise: bool = True, skip: int = 100,
                 image_every: int = 10) -> None:
        settings = dict(mode=mode, sensor=sensor, gain=None if gain is None else float(gain),
                        delay=None if delay is None else _whole("delay", delay, 0), seed=_whole("seed", seed, 0),
                        noise=bool(noise), skip=_whole("skip", skip, 0), image_every=_whole("image_every", image_every, 1))
        self._loop = _zellige.Loop((system, atmosphere), _matrices(reconstructor), settings)
        self.pupil = self._loop.pupil()
        found = self.results
        self._measurements: int = found["measurements"]
        self.targets = _np.array([[each["x"], each["y"]] for each in found["targets"]])
        self.wavelengths = _np.array([band["wavelength"] for band in found["targets"][0]["bands"]])

    def __repr__(self) -> str:
        found = self.results
        return (f"<Loop, {found['mode']}, of {self._measurements} measurements, {found['actuators']} actuators, "
                f"{len(self.targets)} target{'s' if len(self.targets) > 1 else ''}; frame {self.frame}>")

    @property
    def frame(self) -> int:
        """The number of the next frame, from 0."""
        return self._loop.frame

    @property
    def commands(self) -> _np.ndarray:
        """The commands on the mirror in the next frame (volts, of 1 um), (a,).

        In an open loop with several targets, each of which has a mirror of its own: (k, a).
        """
        return _one_or_all(self._loop.commands())

    @property
    def command_matrix(self) -> _np.ndarray:
        """The matrix `C` from slopes to commands (volts per arcsec), (a, n); of several mirrors (k, a, n)."""
        return _one_or_all(self._loop.command_matrices())

    @_functools.cached_property
    def interaction(self) -> _np.ndarray:
        """The slopes for each actuator (arcsec per volt), (n, a), by pushes and pulls of 20 nm without noise."""
        return self._loop.interaction()

    @property
    def results(self) -> dict[str, Any]:
        """The exposure so far, as an entry of ``zellige tor loop --json``; numbers are None before it begins."""
        return _json.loads(self._loop.result())

    def measure(self) -> _np.ndarray:
        """The slopes of all sensors in the next frame (arcsec), (n,): all x and then all y of each sensor."""
        return self._loop.measure()

    def wavefront(self, target: int = 0, *, corrected: bool = True) -> _np.ndarray:
        """The wavefront of a target in the next frame (m), (p, p), y by x; `pupil` has the pixels that count.

        Parameters
        ----------
        target : int
        corrected : bool
            What the mirror as it is now leaves, or that of the turbulence alone.
        """
        return self._loop.wavefront(_of("target", target, len(self.targets)), bool(corrected))

    def star_wavefront(self, star: int = 0) -> _np.ndarray:
        """The wavefront of a guide star in the next frame as its sensor sees it (m), y by x.

        Its positions are those that the sensor asks for: with ``spots`` the centres of pixels that fill the
        square around the pupil, with others points from edge to edge of it. A sensor of one's own measures
        this, and `step` takes its slopes.
        """
        return self._loop.star_wavefront(_whole("star", star, 0))

    def step(self, *, slopes: Any = None, commands: Any = None) -> None:
        """Simulate the next frame.

        Parameters
        ----------
        slopes : array_like, (n,), optional
            In place of those of the sensors (arcsec).
        commands : array_like, optional
            In place of those of the loop's own control (volts), of the shape of `commands`. As those, they
            move the mirror `delay` frames later and are limited to its stroke. An integrator that is asked
            again goes on from them.
        """
        if slopes is not None and commands is not None:
            raise ValueError("slopes and commands: commands are in place of what would follow from slopes; give one")
        if slopes is not None:
            slopes = _shaped("slopes", slopes, (self._measurements,))
        if commands is not None:
            commands = _shaped("commands", commands, self.commands.shape).ravel()
        self._loop.step(slopes, commands)

    def run(self, frames: int) -> None:
        """Simulate frames on all cores. Ctrl-C ends it with the exposure so far, and the loop can go on."""
        self._loop.run(_whole("frames", frames, 0))

    def strehl(self) -> _np.ndarray:
        """The long-exposure Strehl ratios so far, (targets, wavelengths); NaN before the exposure begins.

        The mean over frames of the squared modulus of the mean of ``exp(2 pi i w / wavelength)`` over the pupil.
        """
        return _np.array([[_np.nan if band["strehl"] is None else band["strehl"] for band in target["bands"]]
                          for target in self.results["targets"]])

    def psf(self, target: int = 0, wavelength: float | None = None) -> _np.ndarray:
        """The long-exposure image so far, relative to the peak of a perfect one, (s, s), y by x.

        The centre is pixel ``(s // 2, s // 2)``.

        Parameters
        ----------
        target : int
        wavelength : float, optional
            One of `wavelengths`; by default the first.

        Raises
        ------
        Error
            Before the exposure begins.
        """
        image = self._loop.image(_of("target", target, len(self.targets)), self._band(wavelength))
        if not image.size:
            raise _zellige.Error(f"psf: frame {self.frame} is the next one, and none has been exposed: run more "
                                 "frames than the loop skips (skip=...)")
        return image

    def psf_pixel(self, wavelength: float | None = None) -> float:
        """The size of the pixels of `psf` (arcsec)."""
        return self._loop.image_pixel(self.wavelengths[self._band(wavelength)])

    def _band(self, wavelength: float | None) -> int:
        if wavelength is None:
            return 0
        near = _np.isclose(self.wavelengths, wavelength, rtol=1e-6, atol=0)
        if not near.any():
            raise ValueError(f"wavelength: {wavelength} m; there are images at {self.wavelengths.tolist()}: add others "
                             "to wavelengths in [loop] of the file")
        return int(near.argmax())


def _one_or_all(arrays: list[_np.ndarray]) -> _np.ndarray:
    return arrays[0] if len(arrays) == 1 else _np.stack(arrays)


def _matrices(reconstructor: Any) -> list[_np.ndarray] | None:
    """The matrices of a reconstructor of any kind."""
    if reconstructor is None:
        return None
    given = getattr(reconstructor, "matrices", reconstructor)
    matrices = [_real("reconstructor", each) for each in (given if isinstance(given, list) else [given])]
    for each in matrices:
        if each.ndim != 2:
            raise ValueError(f"reconstructor: an array of {each.ndim} dimensions; give one of 2, or a list of them")
        _finite("reconstructor", each)
    return matrices


def _shaped(name: str, value: Any, shape: tuple[int, ...]) -> _np.ndarray:
    array = _real(name, value)
    if array.shape != shape:
        raise ValueError(f"{name}: an array of shape {array.shape}; {shape} is needed")
    _finite(name, array)
    return array


def _finite(name: str, array: _np.ndarray) -> None:
    try:
        _arrays.check_finite(name, array)
    except _zellige.Error as error:
        raise ValueError(str(error)) from None
