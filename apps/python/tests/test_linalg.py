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


def test_reconstructors():
    system = pathlib.Path(__file__).parents[2] / "tor" / "systems" / "check.toml"
    r = zellige.tor.Reconstructor(system, targets=[(0, 0), (5, 0)])
    assert len(r.matrices) == 2 and r.matrix.shape == r.matrices[1].shape
    assert r.matrix.shape[0] < r.matrix.shape[1] and np.isfinite(r.matrix).all()
    with pytest.raises(zellige.Error, match="nowhere.toml"):
        zellige.tor.Reconstructor("nowhere.toml")
