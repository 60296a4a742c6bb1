"""Simulated loops, beside formulas in numpy."""

import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import zellige

SYSTEMS = pathlib.Path(__file__).parents[2] / "tor/systems"
# The rounded number of MOAO, which zellige has.
ARCSEC = 206265


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A telescope of 3.2 m with 8 x 8 sub-apertures, of the size of those in the file."""
    text = (SYSTEMS / "scao.toml").read_text()
    for old, new in [("diameter = 8.0 ", "diameter = 3.2 "), ("nssp = 20 ", "nssp = 8 ")]:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path_factory.mktemp("loop") / "small.toml"
    path.write_text(text)
    return path


def make(system, **options):
    return zellige.tor.Loop(system, **{"skip": 5, "image_every": 4, **options})


def test_frames_have_the_same_bits_by_every_way(small):
    ways = [lambda loop: loop.run(30), lambda loop: [loop.step() for _ in range(30)],
            lambda loop: [loop.step(slopes=loop.measure()) for _ in range(30)],
            lambda loop: (loop.run(7), [loop.step() for _ in range(6)], loop.run(17))]
    found = []
    for way in ways:
        loop = make(small)
        way(loop)
        found.append((loop.frame, loop.results, loop.commands.tolist(), loop.psf().tolist()))
    assert found[0][0] == 30 and found[0][1]["frames"] == 25 and all(each == found[0] for each in found[1:])
    other = make(small, seed=2)
    other.run(30)
    assert (other.strehl() != np.array([[band["strehl"] for band in found[0][1]["targets"][0]["bands"]]])).all()


@pytest.mark.parametrize("delay", [0, 1, 2])
def test_an_integrator_in_numpy_is_the_loops_own(small, delay):
    own, loop = make(small, delay=delay), make(small, delay=delay)
    own.run(30)
    u, c = loop.commands, loop.command_matrix
    assert not u.any() and c.shape == (len(u), len(loop.measure()))
    for _ in range(30):
        u = u + 0.4 * c @ loop.measure()
        loop.step(commands=u)
    np.testing.assert_allclose(loop.strehl(), own.strehl(), rtol=1e-9)
    np.testing.assert_allclose(loop.commands, own.commands, rtol=0, atol=1e-9 * abs(own.commands).max())


def test_images_are_transforms_of_the_residual_wavefront(small):
    loop = make(small, skip=20, image_every=1)
    assert np.isnan(loop.strehl()).all() and loop.results["frames"] == 0
    loop.run(20)
    residual, pupil = loop.wavefront(), loop.pupil
    # Pixels whose centres are in a circle of 64 across.
    across = np.arange(64) - 31.5
    np.testing.assert_array_equal(pupil, np.hypot.outer(across, across) <= 32)
    loop.step()
    assert loop.results["targets"][0]["rms_nm"] == pytest.approx(1e9 * residual[pupil].std(), rel=1e-9)
    for band, wavelength in enumerate([1.65e-6, 2.2e-6]):
        field = np.where(pupil, np.exp(2j * np.pi * residual / wavelength), 0) / pupil.sum()
        found = loop.psf(0, wavelength)
        size = len(found)
        wanted = abs(np.fft.fftshift(np.fft.fft2(field, (size, size)))) ** 2
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)
        assert loop.strehl()[0, band] == pytest.approx(abs(field.sum()) ** 2, rel=1e-8)
        assert loop.psf_pixel(wavelength) == pytest.approx(wavelength / 3.2 * 64 / size * ARCSEC)


def test_the_mirror_is_what_wavefronts_differ_by(small):
    loop = make(small, sensor="gradients", noise=False)
    before, slopes = loop.wavefront(corrected=False), loop.measure()
    np.testing.assert_array_equal(before, loop.wavefront())
    u = 1e-2 * np.sin(np.arange(len(loop.commands)))
    loop.step(commands=u)
    np.testing.assert_array_equal(loop.commands, u)
    shape = loop.wavefront(corrected=False) - loop.wavefront()
    # 1 um for a volt of one actuator. Where neighbours add up, (1 + 2 c + 2 c^4)^2 = 3 um for c = 0.35.
    assert 0.5e-8 < abs(shape).max() < 3e-8
    # Mean gradients are linear; the turbulence is that of another loop.
    other = make(small, sensor="gradients", noise=False)
    other.step(commands=0 * u)
    np.testing.assert_allclose(other.measure() - loop.measure(), loop.interaction @ u, rtol=0, atol=1e-9)
    assert abs(slopes - other.measure()).max() > 1e-3


def test_a_sensor_of_a_user_sees_what_the_loops_own_does(small):
    loop = make(small, sensor="gradients", noise=False)
    loop.run(10)
    w = loop.star_wavefront()
    intervals = (len(w) - 1) // 8
    # Means over the edges of sub-apertures of 0.4 m by the trapezoidal rule.
    weights = np.ones(intervals + 1) / intervals
    weights[[0, -1]] /= 2
    edges = np.stack([weights @ w[k * intervals:(k + 1) * intervals + 1, ::intervals] for k in range(8)])
    x = (edges[:, 1:] - edges[:, :-1]) / 0.4 * ARCSEC
    # Sub-apertures with half of their area in the pupil.
    fine = (np.arange(400) - 199.5) / 50
    inside = (np.hypot.outer(fine, fine) <= 4).reshape(8, 50, 8, 50).mean(axis=(1, 3)) >= 0.5
    measured = loop.measure()
    valid = x[inside]
    assert len(measured) == 2 * inside.sum()
    np.testing.assert_allclose(measured[:len(valid)], valid, rtol=0, atol=1e-9)


def test_reconstructors_move_a_mirror_for_each_target(tmp_path):
    text = (SYSTEMS / "check.toml").read_text()
    path = tmp_path / "two.toml"
    path.write_text(text.replace("targets = [[0.0, 0.0]]", "targets = [[0.0, 0.0], [20.0, 0.0]]"))
    r = zellige.tor.Reconstructor(path)
    loop = zellige.tor.Loop(path, reconstructor=r, skip=2)
    assert repr(loop).startswith("<Loop, open, of 912 measurements") and "2 targets; frame 0" in repr(loop)
    loop.run(4)
    assert loop.commands.shape == loop.command_matrix.shape[:2] and len(loop.commands) == 2
    assert loop.command_matrix.shape[2] == 912 and loop.strehl().shape == (2, 1)
    other = zellige.tor.Loop(path, reconstructor=r.matrices, skip=2)
    for _ in range(4):
        # An open loop has no memory: what it does follows from the slopes of a frame.
        other.step(commands=other.command_matrix @ other.measure())
    np.testing.assert_allclose(other.strehl(), loop.strehl(), rtol=1e-9)
    with pytest.raises(ValueError, match=r"reconstructors: the loop needs 2 of"):
        zellige.tor.Loop(path, reconstructor=r.matrix)
    broken = r.matrix.copy()
    broken[3, 4] = np.inf
    with pytest.raises(ValueError, match=r"reconstructor\[3, 4\] is inf"):
        zellige.tor.Loop(path, reconstructor=[r.matrix, broken])


def test_what_is_wrong_is_refused_by_name(small):
    loop = make(small)
    n, a = len(loop.measure()), len(loop.commands)
    broken = np.zeros(a)
    broken[2] = np.nan
    for call, words in [
        (lambda: loop.step(slopes=np.zeros(n - 1)), rf"^slopes: an array of shape \({n - 1},\); \({n},\)"),
        (lambda: loop.step(commands=np.zeros((1, a))), rf"^commands: .*\(1, {a}\); \({a},\)"),
        (lambda: loop.step(commands=broken), r"^commands\[2\] is nan"),
        (lambda: loop.step(slopes=np.zeros(n), commands=np.zeros(a)), "give one"),
        (lambda: loop.wavefront(1), "^target: 1; there are 1, counted from 0"),
        (lambda: loop.wavefront(-1), "^target: -1"),
        (lambda: loop.star_wavefront(3), "^star: .*3.*there are 1 guide stars"),
        (lambda: loop.psf(0, 1e-6), r"^wavelength: 1e-06 m; .*1.65e-06.*\[loop\]"),
        (lambda: loop.run(-1), "^frames: -1"),
        (lambda: make(small, gain=-0.4), "loop.gain"),
        (lambda: make(small, delay=-1), "^delay: -1"),
        (lambda: make(small, mode="shut"), "^mode: 'shut': take one of open, pseudo-open, closed"),
        (lambda: make(small, sensor="pyramid"), "^sensor: 'pyramid'.*spots"),
        (lambda: make(small, image_every=0), "^image_every: 0"),
        (lambda: make(small, reconstructor=np.zeros(3)), "^reconstructor: an array of 1 dimensions"),
        (lambda: make(small, reconstructor=np.zeros((3, 4))), "^reconstructors: the loop needs 1 of"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match=r"^commands: complex numbers.*commands\.real"):
        loop.step(commands=1j * np.zeros(a))
    with pytest.raises(TypeError, match="^frames: 1.5"):
        loop.run(1.5)
    with pytest.raises(zellige.Error, match="^psf: frame 0 .*skip"):
        loop.psf()
    with pytest.raises(zellige.Error, match="nothing.toml"):
        zellige.tor.Loop("nothing.toml")
    assert loop.frame == 0


def test_ctrl_c_ends_a_run_with_the_exposure_so_far(small):
    code = (
        "import zellige, sys\n"
        "loop = zellige.tor.Loop(sys.argv[1], skip=0)\n"
        "print('running', flush=True)\n"
        "try:\n"
        "    loop.run(10**8)\n"
        "except KeyboardInterrupt:\n"
        "    frames = loop.frame\n"
        "    loop.step()\n"
        "    print(frames, loop.results['frames'])\n"
    )
    command = [sys.executable, "-c", code, str(small)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "running\n"
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    done, exposed = map(int, out.split())
    assert 0 < done < 10**8 and exposed == done + 1, err
