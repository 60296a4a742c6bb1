import pathlib
import re
import warnings

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


def solid(n):
    """Springs between the points of a cube with n points a side, and the places of the points.

    A spring pulls along its direction only, so that translations and rotations move the cube without any force; the
    lowest layer is held.
    """
    places = np.stack(np.meshgrid(*[np.arange(n)] * 3, indexing="ij"), -1).reshape(-1, 3)
    number = {tuple(place): at for at, place in enumerate(places)}
    rows, columns, values = [], [], []
    for step in [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, -1, 0), (1, 0, 1), (1, 0, -1), (0, 1, 1), (0, 1, -1)]:
        direction = np.array(step) / np.linalg.norm(step)
        spring = np.outer(direction, direction)
        for place, i in number.items():
            j = number.get(tuple(np.add(place, step)))
            for p, q, sign in [(i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)] if j is not None else []:
                for r in range(3):
                    for c in range(3):
                        rows.append(3 * p + r)
                        columns.append(3 * q + c)
                        values.append(sign * spring[r, c])
    a = scipy.sparse.csr_matrix((values, (rows, columns)))
    free = places[:, 0] > 0
    kept = np.repeat(free, 3)
    return a[kept][:, kept], places[free].astype(float)


def test_near_null_spaces_are_those_of_the_command():
    a, places = solid(9)
    b = RNG.standard_normal(a.shape[0])
    found = {}
    centred = places - places.mean(0)
    turns = np.zeros((a.shape[0], 3))
    for axis, (i, j) in enumerate([(1, 2), (2, 0), (0, 1)]):
        turns[i::3, axis], turns[j::3, axis] = -centred[:, j], centred[:, i]
    for name, given in {
        "constant": {"near_null": "constant"},
        "search": {"near_null": "search"},
        "vectors": {"near_null": turns},
        "coordinates": {"coordinates": places},
    }.items():
        answer = zellige.solve(a, b, method="cg", precond="amg", **given)
        assert answer.converged and np.linalg.norm(a @ answer.x - b) <= 2e-10 * np.linalg.norm(b)
        found[name] = answer.columns[0]["steps"]
    assert found["coordinates"] < found["constant"] and found["search"] <= found["constant"]
    # Coordinates stand for rotations about the middle.
    assert abs(found["vectors"] - found["coordinates"]) <= 1


def test_set_ups_are_kept_in_files(tmp_path):
    a, places = solid(9)
    b, path = RNG.standard_normal(a.shape[0]), tmp_path / "setup.npz"
    first = zellige.solve(a, b, method="cg", save_setup=path)
    again = zellige.solve(a, b, method="cg", setup=path)
    assert first.converged and first.columns[0]["precond"] == "amg" and np.array_equal(first.x, again.x)
    d, changed = 1 + 0.01 * (np.arange(a.shape[0]) // 3 % 5), a.tocsr(copy=True)
    changed.data *= np.repeat(d, np.diff(changed.indptr)) * d[changed.indices]
    answer = zellige.solve(changed, b, setup=str(path))
    assert answer.converged and np.linalg.norm(changed @ answer.x - b) <= 2e-10 * np.linalg.norm(b)
    several = zellige.solve(a, RNG.standard_normal((len(b), 4)), method="block-cg", setup=path)
    assert several.converged and several.columns[0]["steps"] < first.columns[0]["steps"]
    with pytest.raises(zellige.Error, match="set-up"):
        zellige.solve(solid(8)[0], np.ones(solid(8)[0].shape[0]), setup=path)
    with pytest.raises(zellige.Error, match="none.npz"):
        zellige.solve(a, b, setup=tmp_path / "none.npz")
    with pytest.raises(zellige.Error, match="amg"):
        zellige.solve(a, b, precond="ic0", setup=path)
    with pytest.raises(ValueError, match="one of them"):
        zellige.solve(a, b, setup=path, save_setup=path)
    with pytest.raises(ValueError, match="one of them"):
        zellige.solve(a, b, setup=path, coordinates=places)
    with pytest.raises(ValueError, match="trust"):
        zellige.solve(a, b, setup=path, trust=True)


def test_mistakes_in_near_null_spaces_are_named():
    a, places = solid(4)
    b = np.ones(a.shape[0])
    with pytest.raises(ValueError, match="one of them"):
        zellige.solve(a, b, near_null="search", coordinates=places)
    with pytest.raises(ValueError, match="amg"):
        zellige.solve(a, b, precond="ic0", coordinates=places)
    with pytest.raises((TypeError, ValueError), match="coordinates"):
        zellige.solve(a, b, precond="amg", coordinates="search")
    with pytest.raises(zellige.Error, match="near_null"):
        zellige.solve(a, b, precond="amg", near_null="all")
    with pytest.raises(zellige.Error):
        zellige.solve(a, b, precond="amg", coordinates=places[:-1])
    with pytest.raises(ValueError, match="real"):
        zellige.solve(a * 1j, b, coordinates=places)
    with pytest.raises(ValueError, match="trust"):
        zellige.solve(a, b, near_null="search", trust=True)


@pytest.mark.parametrize("rule", ["fp32", "hp1:operand=0.1"])
def test_dense_systems_as_numpy(rule):
    n = 400
    a = RNG.standard_normal((n, n))
    a = a @ a.T / n + np.eye(n)
    b = RNG.standard_normal((n, 2))
    factor = zellige.cholesky(a, rule, tile=64)
    expected = np.linalg.solve(a, b)
    np.testing.assert_allclose(factor.solve(b), expected, rtol=0, atol=2e-2)
    np.testing.assert_allclose(factor.refine(b, 1e-13), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(factor.refine(b[:, 0]), expected[:, 0], rtol=1e-8, atol=1e-9)
    assert abs(sum(factor.shares.values()) - 1) < 1e-9 and rule.split(":")[0] in factor.shares


def positive_definite(n):
    return 1 / (1 + abs(np.subtract.outer(np.arange(n), np.arange(n)))) + np.eye(n)


def test_a_rule_without_effect_is_said():
    a = positive_definite(400)
    with pytest.warns(UserWarning, match=r"rule hp1 has had no effect.*two tiles of 256.*tile=50 say, 199") as caught:
        factor = zellige.cholesky(a, "hp1")
    assert factor.shares == {} and caught[0].filename == __file__
    with pytest.warns(UserWarning, match="200 rows are one tile of 256"):
        zellige.cholesky(a[:200, :200], "hp1:band=1,else=x3")
    with pytest.warns(UserWarning, match="held for no product of tiles, all were in fp32.*condition"):
        zellige.cholesky(a, "hp1:operand=1e-30", tile=100)
    with pytest.warns(UserWarning, match="no effect") as caught:
        zellige.tor.Reconstructor.from_covariances(a, a[:2], precision="hp1")
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert zellige.cholesky(a, "hp1", tile=199).shares == {"hp1": 1.0}
        assert zellige.cholesky(a).shares == {}
        own = zellige.tor.Reconstructor.from_covariances(a, a[:2], precision="hp1", tile=100)
    assert own.results["gemm_share"] == {"hp1": 1.0}


def test_tiles_have_a_row_at_least():
    for tile in [0, -1]:
        with pytest.raises(ValueError, match=f"tile: {tile} rows"):
            zellige.cholesky(np.eye(3), tile=tile)
    np.testing.assert_allclose(zellige.cholesky(np.diag([2.0, 4, 8]), tile=1).solve(np.ones(3)), [0.5, 0.25, 0.125])


def test_factors_in_float64():
    for n in [10, 200, 600]:
        a, b = positive_definite(n), np.ones((n, 2))
        x = zellige.cholesky(a, "fp64").solve(b)
        assert np.linalg.norm(b - a @ x) <= 1e-15 * n**0.5 * np.linalg.norm(b)
    with pytest.raises(zellige.Error, match="in float64: row 3 .*diagonal.*solve"):
        zellige.cholesky(np.diag([1.0, 1, 1, -1]), "fp64", tile=1)


@pytest.mark.parametrize("rule", ["fp32", "fp64", "hp1:operand=0.1"])
@pytest.mark.parametrize("size", [1e-300, 1e-60, 1e38, 1e300])
def test_matrices_and_right_hand_sides_of_any_size(rule, size):
    n, a = 300, positive_definite(300)
    b = a @ RNG.standard_normal((n, 3))
    # The solutions, about columns / size, are normal numbers.
    columns = {1e-300: [1e-290, 1, 1e-8], 1e-60: [1e-290, 1, 1e-8], 1e38: [1, 1e-200, 1e-100], 1e300: [1, 1e200, 1e100]}[size]
    x = zellige.cholesky(a * size, rule, tile=64).refine(b * np.array(columns), 1e-13)
    np.testing.assert_allclose((x / columns) * size, np.linalg.solve(a, b), rtol=1e-9, atol=1e-11)


def test_a_matrix_that_is_not_positive_definite_is_said():
    with pytest.raises(zellige.Error, match=r"positive definite in float32: row 3 of the matrix.*-1e0.*solve") as caught:
        zellige.cholesky(np.diag([1.0, 1, 1, -1]), "hp1")
    assert "use more precision" not in str(caught.value)
    with pytest.raises(zellige.Error, match="use more precision for the products"):
        zellige.cholesky(np.diag([1.0, 1, 1, -1]), "hp1", tile=1)
    with pytest.raises(zellige.Error, match="row 3 .* take the rule fp64"):
        zellige.cholesky(np.diag([1.0, 1, 1, -1]), "fp32", tile=1)


@pytest.mark.parametrize("n", [3, 700])
def test_a_matrix_that_is_not_symmetric_is_refused(n):
    a = positive_definite(n)
    a[n - 1, 1] += 1e-3
    with pytest.raises(ValueError, match=rf"a\[{n - 1}, 1\] is .* and a\[1, {n - 1}\] is .*\(a \+ a.T\) / 2"):
        zellige.cholesky(a)
    with pytest.raises(ValueError, match=rf"cmm\[{n - 1}, 1\]"):
        zellige.tor.Reconstructor.from_covariances(a, a[:2])
    with pytest.raises(ValueError, match="symmetric"):
        zellige.cholesky(np.tril(positive_definite(n)))
    zellige.cholesky((a + a.T) / 2)
    # What sums in two orders differ by.
    a[n - 1, 1] = a[1, n - 1] + 1e-5
    zellige.cholesky(a)
    zellige.cholesky(positive_definite(n) * 1e-12)


def test_rounding_is_not_asymmetry():
    for dtype in [np.float32, np.float16]:
        x = RNG.standard_normal((300, 2000)).astype(dtype)
        a = np.stack([(x * row).astype(dtype).sum(axis=1, dtype=dtype) for row in x]) / dtype(2000)
        a = np.tril(a) + np.triu(a * (1 + np.finfo(dtype).eps), 1) + np.eye(300, dtype=dtype)
        zellige.cholesky(a.astype(dtype))


def test_complex_systems():
    n = 50
    a = laplace(n) * (1 + 0.1j) + 0.3j * scipy.sparse.identity(n * n)
    for b in [np.ones(n * n), RNG.standard_normal((n * n, 2)) + 1j * RNG.standard_normal((n * n, 2))]:
        found = zellige.solve(a, b)
        expected = scipy.sparse.linalg.spsolve(a.tocsc(), b.astype(complex))
        assert found.x.dtype == np.complex128 and found.x.shape == b.shape
        np.testing.assert_allclose(found.x, expected, rtol=1e-7, atol=1e-9)
        residual = np.linalg.norm(b - a @ found.x, axis=0) / np.linalg.norm(b, axis=0)
        assert found.converged and residual.max() <= 1e-10
        assert found.residual == pytest.approx(residual.max(), rel=1e-3)
        assert len(found.columns) == (1 if b.ndim == 1 else 2)


def test_a_complex_side_of_a_real_matrix_and_a_dense_complex_matrix():
    b = RNG.standard_normal(900) + 1j * RNG.standard_normal(900)
    found = zellige.solve(laplace(30), b, method="cg", precond="ic0")
    assert found.converged
    np.testing.assert_allclose(laplace(30) @ found.x, b, atol=1e-8)
    hermitian = np.array([[3, 1j, 0], [-1j, 3, 1 + 1j], [0, 1 - 1j, 4]], dtype=np.complex64)
    found = zellige.solve(hermitian, [1, 2, 3j], method="cg", precond="none")
    assert found.converged and found.columns[0]["method"] == "cg"
    np.testing.assert_allclose(hermitian @ found.x, [1, 2, 3j], atol=1e-8)


def test_a_solve_that_does_not_converge_has_the_residual_of_its_complex_answer():
    b = RNG.standard_normal(900) + 1j * RNG.standard_normal(900)
    found = zellige.solve(laplace(30) * 1j, b, method="gmres:5", precond="none", max_steps=3)
    residual = np.linalg.norm(b - 1j * laplace(30) @ found.x) / np.linalg.norm(b)
    assert not found.converged and found.residual == pytest.approx(residual, rel=1e-6)


def test_solve_leaves_the_matrix_alone():
    at = ([0, 0, 1, 1], [1, 1, 0, 1])
    a = scipy.sparse.csr_array((np.array([1.0, 1, 2, 5]), np.array([1, 1, 0, 1]), np.array([0, 2, 4])), shape=(2, 2))
    before = a.data.copy(), a.indices.copy(), a.indptr.copy()
    found = zellige.solve(a, [2.0, 7.0])
    np.testing.assert_allclose(found.x, [1, 1])
    np.testing.assert_array_equal(np.concatenate([a.data, a.indices, a.indptr]), np.concatenate(before))
    np.testing.assert_allclose(zellige.solve(([1.0, 1, 2, 5], at), [2.0, 7.0]).x, [1, 1])


A = np.array([[2.0, 1], [1, 3]])
MASKED = np.ma.array(A, mask=[[0, 1], [1, 0]])


@pytest.mark.parametrize("call, said", [
    (lambda: zellige.cholesky(A * 1j), "a: complex numbers.*zellige.solve"),
    (lambda: zellige.cholesky(A).solve([1j, 0]), "b: complex numbers.*b.real and for b.imag"),
    (lambda: zellige.cholesky(A).refine([1j, 0]), "b: complex numbers"),
    (lambda: zellige.tor.Reconstructor.from_covariances(A * 1j, A), "cmm: complex.*cmm.real"),
    (lambda: zellige.tor.Reconstructor.from_covariances(A, [A * 1j]), "ctm: complex.*ctm.real"),
    (lambda: zellige.cholesky(A.astype(object)), "a: an array of object"),
    (lambda: zellige.cholesky(A.astype(str)), "a: an array of <U32"),
    (lambda: zellige.cholesky(None), "a: a value of type NoneType"),
    (lambda: zellige.cholesky(MASKED), "a: some elements are masked.*filled"),
    (lambda: zellige.cholesky(scipy.sparse.csr_array(A)), r"a: a sparse matrix.*a\.toarray\(\)"),
    (lambda: zellige.cholesky(A).solve(["1", "2"]), "b: an array of <U1"),
    (lambda: zellige.solve(A.astype(str), [1, 2]), "a: an array of <U32"),
    (lambda: zellige.solve(A, ["1", "2"]), "b: an array of <U1"),
    (lambda: zellige.solve(A, np.array([1, None])), "b: an array of object"),
    (lambda: zellige.solve(A, np.array([1, 2], "M8[s]")), "b: an array of datetime64"),
    (lambda: zellige.solve(A, scipy.sparse.csr_array(A)), "b: a sparse matrix"),
    (lambda: zellige.solve(MASKED, [1, 2]), "a: some elements are masked"),
    (lambda: zellige.solve(scipy.sparse.linalg.aslinearoperator(A), [1, 2]),
     "a: MatrixLinearOperator without elements; give a sparse matrix"),
    (lambda: zellige.solve(lambda x: x, [1, 2]), "a: function without elements"),
    (lambda: zellige.solve(None, [1, 2]), "a: a value of type NoneType"),
], ids=range(20))
def test_numbers_are_not_converted_without_a_word(call, said):
    with pytest.raises(TypeError, match=f"^{said}"):
        call()


def test_numbers_that_are_not_finite_are_said_once():
    for bad in [np.nan, np.inf, 1j * np.nan]:
        with pytest.raises(zellige.Error) as caught:
            zellige.solve(A, [1, bad])
        assert str(caught.value).startswith("b[1] is ") and str(caught.value).count("b[1]") == 1
    factor = zellige.cholesky(A)
    for use in [factor.solve, factor.refine]:
        with pytest.raises(zellige.Error, match=r"^b\[0, 1\] is nan: all numbers have to be finite$"):
            use([[1, np.nan], [np.inf, 0]])
    with pytest.raises(zellige.Error, match=r"^a\[0, 1\] is inf"):
        zellige.cholesky([[1, np.inf], [np.inf, 1]])
    with pytest.raises(zellige.Error, match=r"^a\[1, 0\] is \(?nan"):
        zellige.solve(np.array([[1, 1j], [np.nan, 1]]), [1, 2])
    with pytest.raises(zellige.Error, match=r"^ctm\[1, 0\]"):
        zellige.tor.Reconstructor.from_covariances(A, np.array([[1, 2], [np.nan, 1]]))


def test_what_is_no_matrix_is_refused():
    for a in [np.ones(4), np.ones((2, 2, 2)), 1.0]:
        with pytest.raises(ValueError, match="a: a matrix has two dimensions"):
            zellige.solve(a, np.ones(4))
        with pytest.raises(ValueError, match="a: a matrix has two dimensions"):
            zellige.cholesky(a)


def test_representations_are_short():
    assert repr(zellige.cholesky(A)) == "<Cholesky of 2 rows, rule fp32, tiles of 256: no products>"
    said = repr(zellige.cholesky(positive_definite(100), "hp1:band=2", tile=20))
    assert "hp1:band=2" in said and "fp32" in said and len(said) < 120
    said = repr(zellige.solve(laplace(30), np.ones(900)))
    assert said.startswith("<SolveResult x of shape (900,), converged True") and len(said) < 160
    r = zellige.tor.Reconstructor.from_covariances(A, [A, A])
    assert repr(r) == "<Reconstructor of 2 targets, 2 x 2, rule fp32>"


def test_the_package_says_its_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", zellige.__version__)


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
    assert re.fullmatch(r"<Reconstructor of 2 targets, \d+ x \d+, rule fp64, Strehl ratios \[0\.\d+, 0\.\d+\]>", repr(r))
    assert repr(covariances) == f"<Covariances of {len(cmm)} measurements, 2 targets>"
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
