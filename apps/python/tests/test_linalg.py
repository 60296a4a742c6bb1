import pathlib

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import zellige

RNG = np.random.default_rng(1)


def laplace(n):
    ones = np.ones(n)
    a = scipy.sparse.diags([-ones[1:], 2 * ones, -ones[1:]], [-1, 0, 1])
    eye = scipy.sparse.identity(n)
    return scipy.sparse.csr_matrix(scipy.sparse.kron(a, eye) + scipy.sparse.kron(eye, a))


@pytest.mark.parametrize("columns", [None, 3])
def test_sparse_systems_as_scipy(columns):
    a = laplace(30)
    b = RNG.standard_normal(a.shape[0] if columns is None else (a.shape[0], columns))
    found = zellige.solve(a, b, tol=1e-12)
    assert found.converged and found.residual <= 1e-12
    expected = scipy.sparse.linalg.spsolve(a.tocsc(), b)
    assert found.x.shape == b.shape
    np.testing.assert_allclose(found.x, expected, rtol=1e-8, atol=1e-10)
    assert found.columns[0]["steps"] == len(found.columns[0]["history"]) or found.columns[0]["steps"] > 0


def test_a_tolerance_that_is_not_reached_is_said():
    found = zellige.solve(laplace(30), RNG.standard_normal(900), method="cg", precond="none", max_steps=3)
    assert not found.converged and found.residual > 1e-10


def test_options_are_checked():
    with pytest.raises(zellige.Error, match="nonsense"):
        zellige.solve(laplace(4), np.ones(16), method="nonsense")
    with pytest.raises(ValueError, match="16"):
        zellige.solve(laplace(4), np.ones(15))


@pytest.mark.parametrize("rule", ["fp32", "hp1:operand=1e-2"])
def test_dense_systems_as_numpy(rule):
    n = 400
    a = RNG.standard_normal((n, n))
    a = a @ a.T / n + np.eye(n)
    b = RNG.standard_normal((n, 2))
    factor = zellige.cholesky(a, rule)
    expected = np.linalg.solve(a, b)
    np.testing.assert_allclose(factor.solve(b), expected, rtol=0, atol=2e-2)
    np.testing.assert_allclose(factor.refine(b, 1e-13), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(factor.refine(b[:, 0]), expected[:, 0], rtol=1e-8, atol=1e-9)
    assert abs(sum(factor.shares.values()) - 1) < 1e-9 or factor.shares == {}


def test_a_matrix_that_is_not_positive_definite_is_said():
    with pytest.raises(zellige.Error, match="positive definite"):
        zellige.cholesky(-np.eye(10))


SYSTEM = pathlib.Path(__file__).parents[2] / "tor" / "systems" / "check.toml"
TARGETS = [(0, 0), (5, 0)]


@pytest.fixture(scope="module")
def covariances():
    return zellige.tor.covariances(SYSTEM, targets=TARGETS)


def test_reconstructors_are_those_of_their_covariances(covariances):
    r = zellige.tor.Reconstructor(SYSTEM, targets=TARGETS, precision="fp64")
    cmm, ctt = covariances.cmm, covariances.ctt
    np.testing.assert_array_equal(cmm, cmm.T)
    assert len(r.matrices) == 2 and r.matrix.shape == (len(ctt), len(cmm))
    for matrix, ctm, target in zip(r.matrices, covariances.ctm, r.results["targets"]):
        np.testing.assert_allclose(matrix, np.linalg.solve(cmm, ctm.T).T, rtol=0, atol=1e-8)
        cee = ctt - matrix @ ctm.T - ctm @ matrix.T + matrix @ cmm @ matrix.T
        assert np.trace(cee) == pytest.approx(target["trace_cee"], rel=1e-6)
    assert r.strehl.shape == (2,) and 0 < r.strehl[1] < r.strehl[0] < 1
    centre = [psf[len(psf) // 2, len(psf) // 2] for psf in r.psfs]
    np.testing.assert_allclose(r.strehl, centre)
    # The stationary residual makes it smaller here, by the same measure for both.
    assert (r.strehl < r.strehl_exact).all() and (r.strehl_exact < 1).all()
    assert (r.wavefront_error > 0).all() and r.psf_pixel > 0
    with pytest.raises(zellige.Error, match="nowhere.toml"):
        zellige.tor.Reconstructor("nowhere.toml")


@pytest.mark.parametrize("unit", [1.0, 2.4e-11])
def test_reconstructors_of_matrices_of_ones_own(covariances, unit):
    cmm, ctm = unit * covariances.cmm, [unit * each for each in covariances.ctm]
    expected = [np.linalg.solve(cmm, each.T).T for each in ctm]
    r = zellige.tor.Reconstructor.from_covariances(cmm, ctm, tol=1e-12)
    for matrix, wanted in zip(r.matrices, expected, strict=True):
        np.testing.assert_allclose(matrix, wanted, rtol=0, atol=1e-7)
    coarse = zellige.tor.Reconstructor.from_covariances(cmm, ctm[1], precision="hp1:operand=1e-2")
    # Single entries say little: what counts is what is left of the slopes.
    def left(r):
        return np.trace(unit * covariances.ctt - 2 * r @ ctm[1].T + r @ cmm @ r.T)

    assert left(coarse.matrix) == pytest.approx(left(expected[1]), rel=1e-2)
    with pytest.raises(zellige.Error, match="no image"):
        r.strehl
    with pytest.raises(zellige.Error, match="positive definite"):
        zellige.tor.Reconstructor.from_covariances(-cmm, ctm)
    with pytest.raises(ValueError, match=r"ctm: .*\(m, 912\)"):
        zellige.tor.Reconstructor.from_covariances(cmm, ctm[0].T)


def test_a_rule_that_fails_is_said():
    with pytest.raises(zellige.Error, match="hp3: not positive definite at tile"):
        zellige.tor.Reconstructor(SYSTEM, precision="hp3", tile=20)
