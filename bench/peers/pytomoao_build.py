"""Tomographic reconstructors by zellige and by pyTomoAO, in turn:

python bench/peers/pytomoao_build.py [rounds=5] [FILE.yaml...]

Needs the Python package of zellige, and pyTomoAO (PyPI). A file has pyTomoAO's own layout; without one: an 8 m
telescope with four laser stars, 20 x 20 lenslets and seven layers.

`file`: the whole way from the file to `R`. pyTomoAO estimates phases on twice as many points across, zellige
the slopes of the target's sensor: these matrices are of different sizes. zellige's time is without judging what
it has made (error covariances, images), which pyTomoAO does not do.
`matrices`: pyTomoAO's own covariances, from which both solve `R Cmm = Ctm`, and how far the answers are from
pyTomoAO's (Frobenius norms). Medians over the rounds, wall-clock and of all threads (CPU).
"""

import logging
import math
import statistics
import sys
import tempfile
import time

import numpy as np
import yaml
from pyTomoAO.reconstructor import tomographicReconstructor
from pyTomoAO.tomographyUtilsCPU import _solve_spd_from_right as pytomoao_solve

import zellige

RULES = ["fp32", "hp1:operand=1e-2"]


def example():
    across = np.arange(20) - 9.5
    lenslets = np.hypot.outer(across, across)
    actuators = np.hypot.outer(np.arange(21) - 10, np.arange(21) - 10)
    valid = (lenslets <= 10) & (lenslets >= 1.5)
    return {
        "lgs_wfs_parameters": {
            "D": 8, "nLenslet": 20, "nPx": 8, "fieldStopSize": 4, "validLLMap": valid.astype(int).tolist(),
            "wfsLensletsRotation": [0] * 4, "wfsLensletsOffset": [[0] * 4, [0] * 4],
        },
        "dm_parameters": {
            "dmHeights": [0.0], "dmPitch": [0.4], "dmCrossCoupling": 0.15, "nActuators": [21],
            "validActuators": (actuators <= 10.3).astype(int).tolist(),
        },
        "atmosphere_parameters": {
            "nLayer": 7, "zenithAngleInDeg": 30.0, "altitude": [0, 0.5, 1, 2, 4, 8, 16], "L0": 30, "r0": 0.15,
            "fractionnalR0": [0.45, 0.13, 0.05, 0.05, 0.12, 0.1, 0.1], "wavelength": 5.0e-7,
            "windDirection": [0] * 7, "windSpeed": [10] * 7,
        },
        "lgs_asterism": {"radiusAst": 7.6, "LGSwavelength": 5.89e-7, "baseLGSHeight": 90000.0, "nLGS": 4},
        "noise_parameters": {"iNoiseVar": 1.0e14},
        "tomography_parameters": {"fovOptimization": 0, "nFitSrc": 1},
    }


def timed(make):
    wall, cpu = time.perf_counter(), time.process_time()
    made = make()
    return (time.perf_counter() - wall, time.process_time() - cpu), made


def compare(name, file, rounds):
    def build():
        made = tomographicReconstructor(file, force_cpu=True)
        made.build_reconstructor()
        return made

    build()  # Its kernels are compiled when they are first called.
    times = {}
    for _ in range(rounds):
        spent, theirs = timed(build)
        times.setdefault("file: pyTomoAO", []).append(spent)
        for rule in RULES:
            seconds = zellige.tor.Reconstructor(file, precision=rule).results["seconds"]
            spent = sum(seconds[stage] for stage in ("cov", "factor", "solve")), math.nan
            times.setdefault(f"file: zellige {rule}", []).append(spent)
    slopes = theirs.Gamma @ theirs.Cxx @ theirs.Gamma.T
    cmm, ctm = np.asarray(slopes + theirs.CnZ), np.asarray(theirs.Cox @ theirs.Gamma.T)
    errors, expected = {}, theirs.RecStatSA
    of = zellige.tor.Reconstructor.from_covariances
    ways = {"matrices: pyTomoAO (LAPACK, float64)": lambda: pytomoao_solve(ctm, cmm)}
    for rule in RULES:
        for tol in (None, 1e-12):
            way = f"matrices: zellige {rule}" + (f", refined to {tol}" if tol else "")
            ways[way] = lambda rule=rule, tol=tol: of(cmm, ctm, precision=rule, tol=tol).matrix
    for _ in range(rounds):
        for way, solve in ways.items():
            spent, r = timed(solve)
            times.setdefault(way, []).append(spent)
            errors[way] = f"{np.linalg.norm(r - expected) / np.linalg.norm(expected):.1e}"
    sizes = f"R has {len(expected)} rows, zellige's {theirs.Gamma.shape[0] // theirs.nLGS}"
    print(f"{name}: {len(cmm)} measurements; {sizes}")
    print("| | s | CPU s | difference of R |\n| --- | --- | --- | --- |")
    for way, spent in times.items():
        wall, cpu = (statistics.median(each) for each in zip(*spent))
        print(f"| {way} | {wall:.3f} | {cpu:.3f} | {errors.get(way, '')} |", flush=True)


def main():
    logging.disable(logging.INFO)
    rounds = [int(each.removeprefix("rounds=")) for each in sys.argv[1:] if each.startswith("rounds=")] or [5]
    files = [each for each in sys.argv[1:] if "=" not in each]
    for file in files:
        compare(file.rsplit("/", 1)[-1], file, rounds[0])
    if not files:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as made:
            yaml.safe_dump(example(), made)
            made.flush()
            compare("8 m, four laser stars", made.name, rounds[0])


main()
