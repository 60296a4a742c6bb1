"""Stochastic arrays against the programs of CADNA's papers, and digits of solutions and searches."""

import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse

import zellige
from zellige.stochastic import CATEGORIES, Scope, Stochastic

SEEDS = range(5)


def numbers(*values, dtype=np.float64, samples=8):
    return [Stochastic(dtype(value), samples) for value in values]


# Programs.


def rump(dtype, samples):
    a, b = numbers(77617, 33096, dtype=dtype, samples=samples)
    a2, b2 = a * a, b * b
    b4 = b2 * b2
    b6, b8 = b4 * b2, b4 * b4
    return 333.75 * b6 + a2 * (11 * a2 * b2 - b6 - 121 * b4 - 2) + 5.5 * b8 + a / (2 * b)


def discriminant(dtype, samples):
    a, b, c = numbers(0.3, -2.1, 3.675, dtype=dtype, samples=samples)
    return b * b - 4 * a * c


# Of 100 seeds, so many may show digits by chance. Three samples are those of CADNA.
@pytest.mark.parametrize("program, most", [(rump, {3: 15, 8: 2, 16: 0}), (discriminant, {3: 40, 8: 2, 16: 0})])
@pytest.mark.parametrize("samples", [3, 8, 16])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results_without_an_exact_digit(program, most, dtype, samples):
    shown = 0
    for seed in range(100):
        with Scope(seed) as scope:
            y = program(dtype, samples)
        assert (str(y) == "@.0") == (y.digits() == 0) and bool(y) == (y != 0)
        shown += y.digits() > 0
        assert y.digits() > 0 or scope.report().counts["cancellation"] >= 1
    assert shown <= most[samples]


@pytest.mark.parametrize("dtype, root", [(np.float32, "3.500"), (np.float64, "3.500000000000")])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_double_root(dtype, root, seed):
    with Scope(seed) as scope:
        a, b = numbers(0.3, -2.1, dtype=dtype)
        x = -b / (2 * a)
    assert str(x).startswith(root) and abs(float(x) - 3.5) < 1e-6 and scope.report().counts == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_sequence_of_muller(seed):
    with Scope(seed) as scope:
        u0, u1 = numbers(5.5, 61)
        u1 = u1 / 11
        digits = []
        for _ in range(3, 31):
            u0, u1 = u1, 111 - 1130 / u1 + 3000 / (u0 * u1)
            digits.append(int(u1.digits()))
    # It converges to 6 where nothing is rounded; rounding leads it to 100, through numbers without digits.
    assert digits[0] >= 13 and digits[8] <= 4 and min(digits[10:16]) == 0
    assert digits[-1] >= 14 and str(u1).startswith("100.00000000000")
    counts = scope.report().counts
    assert counts["division"] >= 3
    assert "warning" in str(scope.report())


@pytest.mark.parametrize("dtype, order, first, last", [(np.float64, 11, 15, 3), (np.float32, 7, 7, 1)])
def test_the_determinant_of_a_hilbert_matrix(dtype, order, first, last):
    with Scope(1):
        one = Stochastic(np.ones((order, order), dtype))
        a = one / (np.add.outer(np.arange(order), np.arange(order)) + 1).astype(dtype)
        determinant, pivots = Stochastic(dtype(1)), []
        for k in range(order):
            pivots.append(int(a[k, k].digits()))
            determinant = determinant * a[k, k]
            a[k + 1:, k:] -= a[k + 1:, k, None] / a[k, k] * a[k, None, k:]
    assert pivots[0] >= first - 1 and pivots[-1] <= last
    assert all(now <= before + 1 for before, now in zip(pivots, pivots[1:]))
    if dtype == np.float64:
        assert 1 <= determinant.digits() <= 3 and float(determinant) == pytest.approx(3.0264e-65, rel=0.2)
    else:
        assert determinant.digits() <= 1


def test_gradual_losses_and_repeated_roots():
    with Scope(2) as scope:
        x = Stochastic(2.0)
        for _ in range(45):
            x = np.sqrt(x)
        assert x.digits() == 15
        for _ in range(45):
            x = x * x
    assert 1 <= x.digits() <= 3 and scope.report().counts == {"gradual_loss": 1}


def test_cancellation_by_place():
    with Scope(1) as scope:
        third = Stochastic(1.0) / 3
        difference = (
            third * 3
            - (third + third + third)
        )
    report = scope.report()
    (site,) = report.sites
    assert difference == 0 and report.counts == {"cancellation": 1} and site["category"] == "cancellation"
    assert site["place"]["file"] == __file__
    line = pathlib.Path(__file__).read_text().splitlines()[site["place"]["line"] - 1]
    assert "third" in line and site["place"]["column"] == (13 if sys.version_info >= (3, 11) else 1)
    assert f"test_stochastic.py:{site['place']['line']}" in str(report)


# Arrays.


def test_arrays_are_those_of_numpy_where_nothing_is_rounded():
    rng = np.random.default_rng(3)
    a, b, v = rng.integers(1, 50, (4, 3)).astype(float), rng.integers(1, 50, (3, 5)), rng.integers(1, 9, 3)
    x, y = Stochastic(a), Stochastic(b)
    same = np.testing.assert_array_equal
    same((x @ y).value, a @ b)
    same((x @ v).value, a @ v)
    same((v @ y).value, v @ b)
    same(x.dot(y).value, a @ b)
    same(np.matmul(a, y).value, a @ b)
    for axis in [None, 0, 1, -1]:
        same(x.sum(axis).value, a.sum(axis))
        same(np.sum(x, axis=axis).value, a.sum(axis))
    same((x + v).value, a + v)
    same((v - x[:, None]).value, v - a[:, None])
    same((a * x).value, a * a)
    same((x**2).value, a**2)
    same((-x).value, -a)
    same(abs(-x).value, a)
    same((np.float64(2) * x).value, 2 * a)
    same(np.maximum(x, 20).value, np.maximum(a, 20))
    same(np.sqrt(x * x).value, a)
    same(np.floor(x / 2).value, a // 2)
    same(x.T.value, a.T)
    same(x.reshape(2, -1).value, a.reshape(2, -1))
    same(x[1:, ::2].value, a[1:, ::2])
    same(x[..., 1].value, a[..., 1])
    same(x[a > 20].value, a[a > 20])
    same(x[[2, 0]].value, a[[2, 0]])
    same(np.stack([row.value for row in x]), a)
    assert (x.digits() == 15).all() and x.digits().dtype.kind == "i" and x.shape == (4, 3) and len(x) == 4


def test_elements_are_copies_and_slices_are_views():
    x = Stochastic(np.zeros(4))
    first, part = x[0], x[1:3]
    x[0] = 5
    part[...] = Stochastic([1.0, 2.0])
    part += 1
    np.add(x, 1, out=x)
    np.testing.assert_array_equal(x.value, [6, 3, 4, 1])
    assert float(first) == 0
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(x)).samples, x.samples)


def test_comparisons_by_definition_5():
    with Scope(1) as scope:
        z, third = Stochastic(0.1) + 0.2 - 0.3, Stochastic(1.0) / 3
        y = third * 3
        for a, b in [(z, 0), (y, 1)]:
            assert [bool(each) for each in (a == b, a != b, a > b, a < b, a >= b, a <= b)] == [1, 0, 0, 0, 1, 1]
        np.testing.assert_array_equal(Stochastic([1.0, 2, 3]) < [2, 2, 2], [True, False, False])
    # Tests of equality are no unstable branchings.
    assert scope.report().counts["branching"] in (4, 8)


def test_functions_are_moved_by_one_unit_at_most():
    x = np.linspace(0.1, 0.9, 50)
    for name in ["exp", "log", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "cbrt", "log1p",
                 "expm1", "exp2", "log2", "log10", "reciprocal", "square"]:
        found = getattr(np, name)(Stochastic(x))
        expected = getattr(np, name)(x)
        assert (found.digits() >= 14).all(), name
        np.testing.assert_allclose(found.samples, np.repeat(expected[:, None], 8, 1), rtol=1e-15, err_msg=name)
    np.testing.assert_allclose(np.arctan2(Stochastic(x), 2).value, np.arctan2(x, 2), rtol=1e-15)
    np.testing.assert_allclose((Stochastic(x)**0.3).value, x**0.3, rtol=1e-15)


def test_text_has_exact_digits_only():
    with Scope(1):
        x = Stochastic([1.0, 2.0]) / 3
        noise = x[0] * 3 - (x[0] + x[0] + x[0])
    assert repr(x) == "Stochastic([0.333333333333333, 0.666666666666667])"
    assert str(noise) == "@.0" and repr(noise) == "Stochastic(@.0)" and f"{noise}" == "@.0"
    assert repr(Stochastic(np.float32(0.5))) == "Stochastic(0.5000000, dtype=float32)"
    assert "...," in repr(Stochastic(np.ones(5000))) and repr(Stochastic([])) == "Stochastic([])"


def test_precisions():
    with Scope(3):
        x = Stochastic(np.float32(1)) / 3
        assert x.dtype == np.float32 and x.digits() >= 6 and str(x).startswith("0.333333")
        assert (x * 2.0).dtype == np.float32 and (x * np.float64(2)).dtype == np.float64
        assert (x + Stochastic(1.0)).dtype == np.float64 and x.astype(float).digits() in (6, 7)
        narrow = (Stochastic(1.0) / 3).astype(np.float32)
        assert narrow.dtype == np.float32 and narrow.digits() >= 6 and len(np.unique(narrow.samples)) == 2
        both = Stochastic(np.zeros(1, np.float32))
        both[0] = Stochastic(1.0) / 3
        assert both.dtype == np.float32
        p = Stochastic.perturbed(np.full(100, 2.0), 1e-6)
    assert set(np.unique(p.digits())) <= {5, 6, 7} and (abs(p.samples / 2 - 1) <= 1e-6).all()


# Scopes.


def run(seed, **options):
    with Scope(seed, **options) as scope:
        x = Stochastic(np.arange(1.0, 200.0).reshape(1, -1)) / 7
        return (np.log(x @ x.T) + x.sum()).samples, scope.report()


def test_a_seed_repeats_its_bits():
    first, again, other = run(5)[0], run(5)[0], run(6)[0]
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    found = []
    thread = threading.Thread(target=lambda: found.append(run(5)[0]))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(first, found[0])


def test_long_calls_have_the_bits_of_short_ones():
    x = np.random.default_rng(1).random(30_000)
    with Scope(4):
        whole = (Stochastic(x) / 3).samples
    with Scope(4):
        part = (Stochastic(x[:100]) / 3).samples
    np.testing.assert_array_equal(whole[:100], part)


def test_perturbations():
    def third(perturbation, dtype=np.float64):
        with Scope(1, perturbation=perturbation):
            return (Stochastic(np.ones(20, dtype)) / 3).samples

    assert (third("none") == 1 / 3).all()
    assert (third("vprec:24:8") == np.float64(np.float32(1 / 3))).all()
    coarse = third("monte-carlo:10")
    assert len(np.unique(coarse)) > 100 and (abs(coarse * 3 - 1) < 2**-9).all()
    assert len(np.unique(third("random"))) == 2


def test_scopes_nest_and_count_what_they_are_told():
    def cancel():
        x = Stochastic(1.0) / 3
        return x * 3 - (x + x + x)

    outer, inner = Scope(1), Scope(2, categories=set(CATEGORIES) - {"cancellation"})
    with outer:
        cancel()
        with inner:
            cancel() / cancel()
        cancel()
        cancel()
    cancel()
    assert outer.report().counts == {"cancellation": 3}
    counts = inner.report().counts
    assert counts["division"] == 1 and "cancellation" not in counts and "unstable division" in str(inner.report())
    with Scope(1, categories="division") as only:
        1 / cancel()
    assert only.report().counts == {"division": 1}
    assert str(Scope().report()) == "no instability detected" and Scope().report().counts == {}


def test_scopes_belong_to_the_thread_that_enters_them():
    scope, other = Scope(1), Scope(1)

    def work():
        x = Stochastic(1.0) / 3
        x * 3 - (x + x + x)
        with scope:
            x * 3 - (x + x + x)
        with pytest.raises(RuntimeError, match="thread that has entered"):
            other.__exit__(None, None, None)
        done.append(True)

    done = []
    with scope, other:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="reverse order"):
            scope.__exit__(None, None, None)
    assert done and scope.report().counts == {"cancellation": 1} and other.report().counts == {}


def test_infinities_and_zeros_are_counted():
    with Scope(1) as scope:
        x = Stochastic([1.0, 0.0]) / [0.0, 0.0]
        y = np.sqrt(Stochastic(-1.0))
    assert scope.report().counts["division"] == 2 and x.digits().tolist() == [0, 0]
    assert np.isinf(x).tolist() == [True, False] and np.isnan(x).tolist() == [False, True] and np.isnan(y)
    assert np.isfinite(Stochastic([1.0, np.inf])).tolist() == [True, False]
    assert str(Stochastic(np.nan)) == "NaN" and "inf" in str(x)


# What is wrong.


@pytest.mark.parametrize("error, message, call", [
    (TypeError, "complex.*array.real", lambda x: Stochastic([1j])),
    (TypeError, "objects that are numbers", lambda x: Stochastic(["1"])),
    (TypeError, r"float64 or float32, not float16.*astype\(float\)", lambda x: Stochastic(np.float16(1))),
    (ValueError, r"2\^53.*astype\(float\)", lambda x: Stochastic([2**53 + 1])),
    (ValueError, "samples: 5; 3, 8 or 16", lambda x: Stochastic(1.0, samples=5)),
    (ValueError, "3 and of 8 samples: .*samples=", lambda x: x + Stochastic(1.0, samples=3)),
    (ValueError, r"numpy.add: operands of shapes \(2, 3\) and \(2,\).*x\[:, None\]", lambda x: x + [1.0, 2.0]),
    (ValueError, r"@: shapes \(2, 3\) and \(2, 3\).*columns on the left", lambda x: x @ x),
    (ValueError, "6 numbers do not fill", lambda x: x.reshape(4, 2)),
    (ValueError, "axis 2 of an array of 2 dimensions", lambda x: x.sum(2)),
    (ValueError, r"bool\(\) of 6 stochastic numbers", bool),
    (ValueError, r"float\(\) of 6 stochastic numbers", float),
    (TypeError, r"len\(\) of one", lambda x: len(x[0, 0])),
    (TypeError, "numpy.floor_divide is not computed.*add, .*sqrt.*x.value", lambda x: x // 2),
    (TypeError, "numpy.gcd is not computed", lambda x: np.gcd(x, 2)),
    (TypeError, r"numpy.add.reduce is not computed.*x.sum\(axis\)", lambda x: np.add.reduce(x)),
    (TypeError, "with where", lambda x: np.sqrt(x, where=[True])),
    (TypeError, "out", lambda x: np.sqrt(x, out=np.zeros((2, 3)))),
    (ValueError, r"out: an array of shape \(2, 3\)", lambda x: np.sqrt(x[0], out=x)),
    (TypeError, "x.value .means. or x.samples", np.asarray),
    (TypeError, "assign them to elements", lambda x: Stochastic([x[0, 0], x[0, 1]])),
    (TypeError, "x.value", lambda x: np.linalg.inv(x)),
    (TypeError, "operand.*complex", lambda x: x + 1j),
    (TypeError, "text|objects that are numbers", lambda x: x + "1"),
    (TypeError, "dtype: .*not float16: give float64", lambda x: x.astype(np.float16)),
    (ValueError, "error: -1; a finite", lambda x: Stochastic.perturbed(1.0, -1)),
    (IndexError, "out of bounds", lambda x: x[2]),
    (ValueError, r"seed: -1; 0 to 2\^64", lambda x: Scope(-1)),
    (TypeError, "float", lambda x: Scope(1.5)),
    (ValueError, "categories: 'loss'; there are division, .*cancellation", lambda x: Scope(categories=["loss"])),
    (ValueError, "perturbation: 'up'; there are random, none, monte-carlo:T", lambda x: Scope(perturbation="up")),
    (ValueError, "perturbation: 'vprec:99:8'", lambda x: Scope(perturbation="vprec:99:8")),
])
def test_what_is_wrong_is_named(error, message, call):
    with pytest.raises(error, match=message):
        call(Stochastic(np.ones((2, 3))))


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_a_long_product():
    program = ("import numpy as np, zellige\nx = zellige.Stochastic(np.ones((1500, 1500)))\nprint('begins', flush=True)\n"
               "x @ x\n")
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "begins\n"
    time.sleep(1)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in err and time.monotonic() - began < 10


# Digits of solutions and searches.


def poisson(n):
    return scipy.sparse.diags([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], [-1, 0, 1])


def on_one_and_all_cores(judge):
    """The judgement, which is the same on one worker and on all."""
    everywhere, cores = judge(), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        one = judge()
    finally:
        os.sched_setaffinity(0, cores)
    assert one.maps.keys() == everywhere.maps.keys() and one.conclusions == everywhere.conclusions
    for name, digits in one.maps.items():
        np.testing.assert_array_equal(digits.digits, everywhere.maps[name].digits)
    assert one.instabilities == everywhere.instabilities
    return one


@pytest.mark.parametrize("samples", [3, 8, 16])
def test_digits_of_a_sparse_solution(samples):
    a, b = poisson(60), np.sin(np.arange(60.0))
    trust = on_one_and_all_cores(lambda: zellige.solve(a, b, method="cg", trust=True, samples=samples, seed=3))
    x = trust.maps["x"]
    assert x.digits.shape == (60,) and x.all == 15 and x.unit == "row" and 5 <= np.median(x.digits) <= 15
    assert sum(x.histogram().values()) == 60 and "alpha of CG" in trust.maps
    assert trust.samples == samples and trust.seed == 3 and trust.seconds > 0 and trust.plain_seconds > 0
    assert "digits of x are exact" in trust.conclusions[0] and trust.conclusions[0] in str(trust) and "x" in repr(trust)


def test_digits_of_a_dense_solution():
    n = 120
    a = 1 / (1 + abs(np.subtract.outer(np.arange(n), np.arange(n)))) + np.eye(n)
    factor = zellige.cholesky(a, "fp64", tile=40)
    trust = on_one_and_all_cores(lambda: factor.solve(np.ones(n), trust=True, seed=1))
    assert trust.maps["L"].digits.shape == (3, 3) and trust.maps["X"].digits.shape == (1, 3)
    assert trust.maps["pivots"].digits.shape == (n,) and trust.maps["X"].digits.min() >= 10
    assert "digits of X are exact" in trust.conclusions[0]
    single = zellige.cholesky(a, tile=40).solve(np.ones(n), trust=True)
    assert single.maps["X"].all == 7
    # Condition 1e13: few digits are left, and they are lost where the pivots are.
    hilbert = 1 / (1 + np.add.outer(np.arange(9.0), np.arange(9.0)))
    poor = zellige.cholesky(hilbert, "fp64").solve(np.ones(9), trust=True)
    assert poor.maps["X"].digits.max() <= 7 and poor.maps["pivots"].digits[-1] < poor.maps["pivots"].digits[0]
    assert "lost in pivot 8" in poor.conclusions[0]


@pytest.mark.parametrize("rule, all_digits", [("fp32", 7), ("fp64", 15)])
def test_digits_of_a_factor(rule, all_digits):
    n = 120
    a = 1 / (1 + abs(np.subtract.outer(np.arange(n), np.arange(n)))) + np.eye(n)
    trust = on_one_and_all_cores(lambda: zellige.cholesky(a, rule, tile=40, trust=True, samples=16, seed=1))
    assert list(trust.maps) == ["L", "pivots"] and trust.samples == 16 and trust.seed == 1
    assert trust.maps["L"].digits.shape == (3, 3) and trust.maps["L"].all == all_digits
    assert trust.maps["pivots"].digits.shape == (n,) and trust.maps["pivots"].digits.min() >= all_digits - 3
    assert "digits of L are exact" in trust.conclusions[0] and trust.plain_seconds > 0


def test_the_worst_pivot_of_a_factor_is_named():
    hilbert = 1 / (1 + np.add.outer(np.arange(9.0), np.arange(9.0)))
    poor = zellige.cholesky(hilbert, "fp64", trust=True)
    pivots = poor.maps["pivots"].digits
    assert pivots[-1] < pivots[0] - 6 and "lost in pivot 8" in poor.conclusions[0]
    assert poor.maps["L"].digits.min() <= pivots[-1] + 1


@pytest.mark.parametrize("precision, all_digits", [("fp32", 7), ("fp64", 15)])
def test_digits_of_searches(precision, all_digits):
    rng = np.random.default_rng(2)
    basis, positions = rng.random((60, 3, 20)), rng.random((60, 3))
    basis[1] = basis[0]
    events = basis[:12] + rng.normal(0, 0.01, (12, 3, 20))
    search = zellige.psa.Search(basis, positions, method="fgs", precision=precision)
    trust = on_one_and_all_cores(lambda: search.locate(events, trust=True, seed=2))
    best, gap = trust.maps["the best figure of merit"], trust.maps["the gap to the second point"]
    assert best.all == all_digits and best.digits.shape == (12,) and (best.digits >= all_digits - 3).all()
    # Events 0 and 1 fit two points equally well.
    assert gap.digits[2:].min() > 0 and len(trust.conclusions) >= 3


def test_what_has_no_digits_to_judge_is_named():
    a, b = poisson(10), np.ones(10)
    with pytest.raises(ValueError, match="samples: 4; 3, 8 or 16"):
        zellige.solve(a, b, trust=True, samples=4)
    with pytest.raises(ValueError, match=r"trust: 2 right-hand sides.*b\[:, 0\]"):
        zellige.solve(a, np.ones((10, 2)), trust=True)
    with pytest.raises(ValueError, match="trust: a complex system"):
        zellige.solve(a, 1j * b, trust=True)
    with pytest.raises(zellige.Error, match="precond.*none or jacobi"):
        zellige.solve(a, b, precond="ic0", trust=True)
    with pytest.raises(ValueError, match="trust: the rule hp1; .*fp32 and fp64"):
        zellige.cholesky(np.eye(9) * 2, "hp1", tile=3).solve(np.ones(9), trust=True)
    with pytest.raises(ValueError, match="trust: the rule hp1; .*fp32 and fp64"):
        zellige.cholesky(np.eye(9) * 2, "hp1", tile=3, trust=True)
    with pytest.raises(ValueError, match="seed: -1"):
        zellige.cholesky(np.eye(3)).solve(np.ones(3), trust=True, seed=-1)
    with pytest.raises(ValueError, match="samples: 5; 3, 8 or 16"):
        zellige.cholesky(np.eye(3), trust=True, samples=5)
    with pytest.raises(zellige.Error, match="not positive definite"):
        zellige.cholesky(-np.eye(3), "fp64", trust=True)
    with pytest.raises(zellige.Error, match="precision"):
        basis, positions = np.random.rand(9, 2, 5), np.random.rand(9, 3)
        zellige.psa.Search(basis, positions, precision="int16").locate(basis, trust=True)
