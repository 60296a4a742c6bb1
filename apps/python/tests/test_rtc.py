"""Products in real time, beside numpy."""

import threading

import numpy as np
import pytest

import zellige

RNG = np.random.default_rng(52)


def few_bits(path, rows, columns):
    """Writes a matrix of integers with scales, and returns it."""
    edges = np.array([0, 40, columns])
    codes = RNG.integers(-7, 8, (rows, columns)).astype(np.int8)
    scales = 2.0 ** RNG.integers(-3, 3, (rows, 2))
    np.savez(path, bits=np.array([4]), codes=codes, edges=edges, scales=scales.astype(np.float32))
    return codes * np.repeat(scales, np.diff(edges), axis=1)


@pytest.mark.parametrize("workers", [1, 2])
def test_commands_are_products(tmp_path, workers):
    matrix = few_bits(tmp_path / "r.npz", 130, 70)
    for source in [tmp_path / "r.npz", str(tmp_path / "r.npz"), matrix, np.asfortranarray(matrix)]:
        rtc = zellige.tor.Rtc(source, workers=workers)
        assert rtc.shape == (130, 70)
        for _ in range(3):
            slopes = RNG.normal(size=70)
            commands = rtc.step(slopes)
            assert commands.dtype == np.float32
            np.testing.assert_allclose(commands, matrix @ slopes, atol=1e-4)


def test_a_reconstructor_is_swapped():
    rtc = zellige.tor.Rtc(np.ones((3, 5)))
    for value in [2.0, 3.0]:
        thread = threading.Thread(target=rtc.swap, args=[np.full((3, 5), value)])
        thread.start()
        thread.join()
        np.testing.assert_array_equal(rtc.step(np.ones(5)), np.full(3, 5 * value))
    with pytest.raises(ValueError, match="3 x 4 instead of 3 x 5"):
        rtc.swap(np.ones((3, 4)))


def test_what_does_not_fit_is_refused(tmp_path):
    rtc = zellige.tor.Rtc(np.ones((3, 5)))
    for slopes in [np.ones(4), np.ones((1, 5))]:
        with pytest.raises(ValueError, match="there are 5 slopes"):
            rtc.step(slopes)
    with pytest.raises(TypeError, match="complex"):
        rtc.step(1j * np.ones(5))
    with pytest.raises(ValueError, match="not finite"):
        zellige.tor.Rtc(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="commands x slopes"):
        zellige.tor.Rtc(np.ones(3))
    with pytest.raises(zellige.Error, match="absent.npz"):
        zellige.tor.Rtc(tmp_path / "absent.npz")
