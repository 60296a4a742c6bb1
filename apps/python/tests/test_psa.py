import numpy as np
import pytest

import zellige

CHANNELS, SAMPLES = 3, 40


def signals(positions):
    """What three electrodes see of a charge at a position: the farther it starts from one, the later."""
    t = np.arange(SAMPLES)
    return 1 / (1 + np.exp(positions[:, :, None] + 6 - t))


@pytest.fixture(scope="module")
def case():
    """A basis of points 2 mm apart, and events in between: 600 keV, with noise."""
    rng = np.random.default_rng(3)
    axis = np.arange(0, 14, 2.0)
    positions = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    truth = rng.uniform(0, 12, (300, 3))
    energies = rng.uniform(100, 1000, 300)
    noise = rng.normal(0, 3, (300, CHANNELS, SAMPLES))
    events = (energies[:, None, None] * signals(truth) + noise).astype(np.float32)
    return signals(positions).astype(np.float32), positions, events, energies, truth


def foms(basis, events, energies, p):
    """Figures of merit in float64, by event and point."""
    points = 1000 * basis.astype(float).reshape(len(basis), -1)
    measured = 1000 * events.astype(float).reshape(len(events), -1) / energies[:, None]
    return np.stack([(np.abs(points - event) ** p).sum(axis=1) for event in measured])


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_exact_searches_find_what_a_search_in_numpy_finds(case, p):
    basis, positions, events, energies, truth = case
    hits = zellige.psa.Search(basis, positions, method="exact", p=p).locate(events, energies)
    expected = foms(basis, events, energies, p)
    best = expected.argmin(axis=1)
    np.testing.assert_array_equal(hits.index, best)
    np.testing.assert_allclose(hits.fom, expected[np.arange(len(events)), best], rtol=1e-12)
    np.testing.assert_array_equal(hits.position, positions[best])
    assert hits.flags["certified"].all() and not hits.flags["pair"].any() and len(hits) == len(events)
    assert np.median(np.linalg.norm(hits.position - truth, axis=1)) < 3


def test_full_searches_have_the_second_best_as_well(case):
    basis, positions, events, energies, _ = case
    hits = zellige.psa.Search(basis, positions, method="fgs", precision="fp64").locate(events, energies)
    expected = foms(basis, events, energies, 0.3)
    order = expected.argsort(axis=1, kind="stable")
    np.testing.assert_array_equal([hits.index, hits.second], order[:, :2].T)
    by_rank = np.take_along_axis(expected, order, axis=1)
    np.testing.assert_allclose(hits.gap, by_rank[:, 1] - by_rank[:, 0], rtol=1e-8)
    near = [positions[row <= 1.02 * row.min()] - positions[row.argmin()] for row in expected]
    spread = [np.sqrt((each**2).sum(axis=1).mean()) for each in near]
    np.testing.assert_allclose(hits.spread, spread, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("options", [dict(), dict(method="cfgs", cells=3), dict(screen="square", top=20),
                                     dict(precision="int16"), dict(method="fgs", precision="fp16")])
def test_fast_searches_are_near_the_full_one(case, options):
    basis, positions, events, energies, _ = case
    hits = zellige.psa.Search(basis, positions, **options).locate(events, energies)
    expected = foms(basis, events, energies, 0.3)
    found = expected[np.arange(len(events)), hits.index]
    assert (found <= 1.05 * expected.min(axis=1)).mean() > 0.9


def test_signals_may_be_in_units_of_the_charge_and_integers(case):
    basis, positions, events, energies, _ = case
    search = zellige.psa.Search(np.round(basis * 16384).astype(np.int16), positions, method="exact")
    hits = search.locate(events / energies[:, None, None])
    np.testing.assert_array_equal(search.locate(events.tolist(), list(energies)).index, hits.index)
    assert search.locate(basis).flags["certified"].all()
    np.testing.assert_array_equal(search.locate(basis).index, np.arange(len(basis)))


def test_no_events_have_no_hits(case):
    basis, positions, *_ = case
    hits = zellige.psa.Search(basis, positions).locate(np.empty((0, CHANNELS, SAMPLES)))
    assert repr(hits) == "<Hits of 0 events>" and len(hits) == 0 and hits.position.shape == (0, 3)


def test_what_is_no_basis_is_refused_by_name(case):
    basis, positions, *_ = case
    search = zellige.psa.Search
    broken = basis.copy()
    broken[11, 1, 2] = np.nan
    with pytest.raises(zellige.Error, match="basis: point 11"):
        search(broken, positions)
    with pytest.raises(zellige.Error, match=r"positions: .*\(343, 3\)"):
        search(basis, positions[1:])
    with pytest.raises(zellige.Error, match="positions: point 0"):
        search(basis, np.full_like(positions, np.inf))
    with pytest.raises(zellige.Error, match="basis of a segment: 0 points"):
        search(basis[:0], positions[:0])
    with pytest.raises(ValueError, match="basis.*channels"):
        search(basis[0], positions)
    with pytest.raises(zellige.Error, match="method: 'best': take one of fgs"):
        search(basis, positions, method="best")
    with pytest.raises(zellige.Error, match="precision: 'fp8'"):
        search(basis, positions, precision="fp8")
    with pytest.raises(zellige.Error, match="^p: an exponent"):
        search(basis, positions, p=-1)
    with pytest.raises(TypeError, match="methods"):
        search(basis, positions, methods="fgs")


def test_numbers_are_not_converted_without_a_word(case):
    basis, positions, events, energies, _ = case
    search = zellige.psa.Search
    for call, name in [
        (lambda: search(basis * 1j, positions), "basis"),
        (lambda: search(basis, positions + 0j), "positions"),
        (lambda: search(basis, positions).locate(events + 0j), "events"),
        (lambda: search(basis, positions).locate(events, energies + 0j), "energies"),
    ]:
        with pytest.raises(TypeError, match=rf"^{name}: complex numbers.*{name}\.real"):
            call()
    with pytest.raises(TypeError, match="^positions: an array of <U"):
        search(basis, positions.astype(str))
    with pytest.raises(TypeError, match="^energies: some elements are masked"):
        search(basis, positions).locate(events, np.ma.masked_less(energies, 500))


def test_what_is_no_event_is_refused_by_name(case):
    basis, positions, events, energies, _ = case
    search = zellige.psa.Search(basis, positions)
    with pytest.raises(zellige.Error, match="events: 3 channels of 39 samples, 3 of 40"):
        search.locate(events[:, :, 1:], energies)
    with pytest.raises(zellige.Error, match="energies: 299 for 300 events"):
        search.locate(events, energies[1:])
    broken = events.copy()
    broken[200, 0, 0] = np.inf
    with pytest.raises(zellige.Error, match="events: event 200"):
        search.locate(broken, energies)
    with pytest.raises(zellige.Error, match="energies: event 0"):
        search.locate(events, 0 * energies)


def crystal(seed=5):
    """A basis of four points in each of two segments that do not touch. The core sees what they do."""
    rng = np.random.default_rng(seed)
    segments = np.repeat([0, 14], 4)
    positions = rng.uniform(0, 40, (8, 3))
    basis = np.zeros((8, 37, SAMPLES), dtype=np.float32)
    rise = 1 / (1 + np.exp(4 + 3 * np.arange(8)[:, None] - np.arange(SAMPLES)))
    basis[np.arange(8), segments] = rise
    basis[:, 36] = rise
    return basis, positions, segments


def test_hits_of_a_crystal_are_taken_apart():
    basis, positions, segments = crystal()
    events = np.stack([500 * basis[1], 300 * basis[6] + 900 * basis[2], 0 * basis[0]])
    hits = zellige.psa.Crystal(basis, positions, segments, method="exact").locate(events)
    assert hits.event.tolist() == [0, 1, 1] and hits.segment.tolist() == [0, 0, 14]
    assert hits.index.tolist() == [1, 2, 6]
    # Of the last samples: signals have not all ended.
    np.testing.assert_allclose(hits.energy, [500, 900, 300], rtol=2e-3)
    np.testing.assert_allclose(hits.position, positions[hits.index], rtol=1e-6)
    assert repr(hits) == "<CrystalHits: 3 hits of 2 events>"
    assert zellige.psa.Crystal(basis, positions, segments.astype(float)).locate(events).segment.tolist() == [0, 0, 14]


def test_what_is_no_crystal_is_refused_by_name():
    basis, positions, segments = crystal()
    of = zellige.psa.Crystal
    with pytest.raises(zellige.Error, match="segments: point 0: 36"):
        of(basis, positions, segments + 36)
    for wrong in [1.5, np.nan]:
        with pytest.raises(ValueError, match="segments: element 0 is .*whole numbers"):
            of(basis, positions, segments + wrong)
    with pytest.raises(zellige.Error, match="segments of the points: 7 for 8"):
        of(basis, positions, segments[1:])
    with pytest.raises(zellige.Error, match="37 channels"):
        of(basis[:, :36], positions, segments)
    with pytest.raises(zellige.Error, match="window"):
        of(basis, positions, segments, window=41)
    with pytest.raises(zellige.Error, match="channels: 'core'"):
        of(basis, positions, segments, channels="core")
    search = of(basis, positions, segments)
    with pytest.raises(zellige.Error, match="events: 36 channels"):
        search.locate(np.zeros((2, 36, SAMPLES)))
    elsewhere = np.zeros((2, 37, SAMPLES))
    elsewhere[1, 20] = 100
    with pytest.raises(zellige.Error, match="event 1: .*segment 20"):
        search.locate(elsewhere)
    elsewhere[0, 0, 0] = np.nan
    with pytest.raises(zellige.Error, match="event 0: .*finite"):
        search.locate(elsewhere)


def test_ctrl_c_ends_a_search():
    import signal
    import subprocess
    import sys
    import time

    code = (
        "import numpy as np, zellige\n"
        "rng = np.random.default_rng(1)\n"
        "basis, positions = rng.random((5000, 10, 40), dtype=np.float32), rng.random((5000, 3))\n"
        "search = zellige.psa.Search(basis, positions, method='fgs', precision='fp64')\n"
        "events = basis[:4000]\n"
        "print('searching', flush=True)\n"
        "search.locate(events)\n"
    )
    command, pipe = [sys.executable, "-c", code], subprocess.PIPE
    child = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    assert child.stdout.readline() == "searching\n"
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
