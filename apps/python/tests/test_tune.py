"""Searches for the cheapest formats, with computations whose optimum is known."""

import itertools
import json
import signal

import numpy as np
import pytest

import zellige

FORMATS = ["fp16", "fp32", "fp64"]


def landscape(seed, count=5):
    """Items of several sizes, and a trial whose errors add up."""
    rng = np.random.default_rng(seed)
    sizes, weights = rng.integers(1, 50, count), rng.uniform(0.1, 1.0, count)
    items = {f"x{at}": [("fp16", 2 * size), ("fp32", 4 * size), ("fp64", 8 * size)] for at, size in enumerate(sizes)}

    def trial(formats):
        lowered = [2 - FORMATS.index(formats[name]) for name in items]
        return {"error": float(weights @ lowered), "fp16": formats["x0"] == "fp16"}

    return items, trial


def optimum(items, trial, limit):
    names, costs = list(items), [dict(formats) for formats in items.values()]
    every = (dict(zip(names, formats)) for formats in itertools.product(FORMATS, repeat=len(names)))
    accepted = (each for each in every if trial(each)["error"] <= limit)
    return min(sum(cost[each[name]] for name, cost in zip(names, costs)) for each in accepted)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("how", ["expression", "callable"])
def test_results_are_minimal_and_near_the_optimum(seed, how):
    items, trial = landscape(seed)
    limit = 0.4 * trial({name: "fp16" for name in items})["error"]
    accept = f"error <= {limit!r}" if how == "expression" else lambda trial, reference: trial["error"] <= limit
    found = zellige.tune(items, trial, accept)
    assert found.ended == "minimal" and trial(found.formats)["error"] <= limit
    assert found.cost == sum(dict(items[name])[each] for name, each in found.formats.items())
    assert optimum(items, trial, limit) <= found.cost <= 1.1 * optimum(items, trial, limit)
    for name, each in found.formats.items():
        for lower in FORMATS[:FORMATS.index(each)]:
            assert trial({**found.formats, name: lower})["error"] > limit


def test_a_result_has_trials_verdicts_and_a_front():
    items, trial = landscape(1)
    found = zellige.tune(items, trial, "error <= 1.0", groups={"x0": "a", "x1": "a/b"})
    assert found.reference is found.trials[0] and set(found.reference.formats.values()) == {"fp64"}
    assert found.reference.measures == {"error": 0.0, "fp16": 0.0} and found.reference.verdict == "accepted"
    assert list(found.formats) == list(items) and found.best in found.trials and found.verified is None
    rejected = [each for each in found.trials if each.verdict == "rejected"]
    assert rejected and all("error <= 1.0" in each.reason and each.quality < 0 for each in rejected)
    assert all(each.data == "search" and not each.logged and each.seconds >= 0 for each in found.trials)
    costs, qualities = zip(*((each.cost, each.quality) for each in found.front))
    assert list(costs) == sorted(costs) and list(qualities) == sorted(qualities) and found.best in found.front
    assert str(found).startswith("accept     error <= 1.0\n") and f"of cost {found.cost:g}" in repr(found)


def test_means_hold_beyond_their_standard_error():
    def trial(formats):
        return {"share": {"low": (0.99, 0.01), "high": (np.float32(1.0), 0)}[formats["x"]]}

    def tuned(accept):
        return zellige.tune({"x": [("low", 1), ("high", 2)]}, trial, accept)

    found = tuned("share >= 0.98")
    assert found.formats == {"x": "high"} and found.trials[1].measures == {"share": (0.99, 0.01)}
    assert tuned("share >= 0.97").formats == {"x": "low"}
    seen = []
    tuned(lambda trial, reference: seen.append((trial, reference)) or True)
    assert seen[1] == ({"share": (0.99, 0.01)}, {"share": 1.0})


def test_costs_may_be_measured():
    def trial(formats):
        return {"seconds": {"low": 3.0, "middle": 1.0, "high": 2.0}[formats["x"]]}

    found = zellige.tune({"x": [("low", 1), ("middle", 2), ("high", 3)]}, trial, "seconds >= 0", cost="seconds")
    assert found.cost == 1.0 and found.formats == {"x": "middle"} and found.reference.cost == 2.0


def test_the_budget_ends_a_search():
    items, trial = landscape(3, count=8)
    full = zellige.tune(items, trial, "error <= 2")
    short = zellige.tune(items, trial, "error <= 2", max_trials=4)
    assert len(short.trials) == 4 and short.ended == "trials" and full.cost <= short.cost <= short.reference.cost
    none = zellige.tune(items, trial, "error <= 2", max_time=0)
    assert none.ended == "seconds" and none.formats == none.reference.formats


def test_a_log_goes_on(tmp_path):
    items, trial = landscape(4)
    whole, calls = zellige.tune(items, trial, "error <= 1.5"), []

    def search(most, accept="error <= 1.5", log=tmp_path / "log.jsonl"):
        def stopping(formats):
            if len(calls) == most:
                raise MemoryError("enough")
            calls.append(formats)
            return trial(formats)

        return zellige.tune(items, stopping, accept, log=log)

    with pytest.raises(MemoryError, match="enough"):
        search(5)
    assert len(calls) == 5 and len((tmp_path / "log.jsonl").read_text().splitlines()) == 6
    found = search(1000)
    assert len(calls) == len(whole.trials) and found.formats == whole.formats
    assert [each.logged for each in found.trials] == [at < 5 for at in range(len(whole.trials))]
    # Another criterion uses the trials of the log; other items do not. A function has no margin, so that the order may differ.
    other = search(1000, accept=lambda measures, reference: measures["error"] <= 1.5)
    known = [each.formats for each in whole.trials]
    assert other.formats == whole.formats and [each.logged for each in other.trials] == [each.formats in known for each in other.trials]
    items["x9"] = items.pop("x0")
    with pytest.raises(zellige.Error, match="another search"):
        search(1000)


def test_results_are_verified_on_other_data():
    items, trial = landscape(5)

    def harder(formats):
        return {"error": 2 * trial(formats)["error"]}

    found = zellige.tune(items, trial, "error <= 2", verify=harder)
    assert found.verified.data == "verify" and found.verified.measures["error"] <= 2
    assert found.verified.formats == found.formats and found.trials[-1] is found.verified
    assert found.best.measures["error"] <= 1 < zellige.tune(items, trial, "error <= 2").best.measures["error"]


def test_failed_trials_are_rejected():
    def trial(formats):
        return "not positive definite" if formats["x"] == "low" else {"error": 0}

    found = zellige.tune({"x": [("low", 1), ("high", 2)]}, trial, "error < 1")
    assert found.formats == {"x": "high"} and found.trials[1].verdict == "failed"
    assert found.trials[1].reason == "not positive definite" and found.trials[1].cost is None
    with pytest.raises(zellige.Error, match="the reference.*failed: no memory"):
        zellige.tune({"x": [("low", 1)]}, lambda formats: "no memory", "error < 1")
    with pytest.raises(zellige.Error, match="the reference.*is not accepted"):
        zellige.tune({"x": [("low", 1)]}, lambda formats: {"error": 2}, "error < 1")


@pytest.mark.parametrize("where", ["trial", "accept", "verify"])
def test_exceptions_of_callables_are_raised(where):
    items, trial = landscape(2)
    calls = []

    def counted(name, result):
        def call(*arguments):
            calls.append(name)
            if name == where and len(calls) > 4:
                raise LookupError(name)
            return result(*arguments)

        return call

    accept = counted("accept", lambda measures, reference: measures["error"] <= 1)
    with pytest.raises(LookupError, match=where):
        zellige.tune(items, counted("trial", trial), accept, verify=counted("verify", trial))
    assert calls[-1] == where


def test_ctrl_c_ends_a_search_and_keeps_its_trials(tmp_path):
    items, trial = landscape(2)
    calls = []

    def interrupted(formats):
        calls.append(formats)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return trial(formats)

    with pytest.raises(KeyboardInterrupt):
        zellige.tune(items, interrupted, "error <= 1", log=tmp_path / "log.jsonl")
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert len(calls) == 3 and len(lines) == 3 and json.loads(lines[1])["data"] == "search"


def test_unknown_names_end_a_search_after_the_reference():
    items, trial = landscape(0)
    calls = []

    def counted(formats):
        calls.append(formats)
        return trial(formats)

    with pytest.raises(zellige.Error, match="no measure `errors`; there are: error, fp16"):
        zellige.tune(items, counted, "errors <= REF.error")
    with pytest.raises(zellige.Error, match="cost: no measure `seconds`; there are: error, fp16"):
        zellige.tune(items, counted, "error <= 1", cost="seconds")
    assert len(calls) == 2 and set(calls[0].values()) == {"fp64"}


def never(formats):
    raise AssertionError("no trial is needed")


@pytest.mark.parametrize("items, said", [
    ({}, "items: there are none"),
    ({"x": []}, "`x` needs 1 to 255 formats"),
    ({"x": [("fp32", 1), ("fp32", 2)]}, "`x` has a format twice"),
    ({"x": [("fp64", 2), ("fp32", 1)]}, "`x` has formats that are not in the order of their costs"),
    ({"x": [("fp32", float("nan"))]}, "`x` has a cost that is not finite"),
])
def test_items_are_checked_before_the_first_trial(items, said):
    with pytest.raises(zellige.Error, match=said):
        zellige.tune(items, never, "error <= 1")


def test_expressions_are_checked_before_the_first_trial():
    items = {"x": [("fp32", 1)]}
    for accept, said in [("error <=", "expected a number"), ("error + 1", "a comparison is needed"), ("1 < error < 3", "&&")]:
        with pytest.raises(zellige.Error, match=said):
            zellige.tune(items, never, accept)
    with pytest.raises(zellige.Error, match="`seconds [+]`"):
        zellige.tune(items, never, "error <= 1", cost="seconds +")


def test_arguments_of_another_form_are_named():
    items = {"x": [("fp32", 1), ("fp64", 2)]}
    with pytest.raises(TypeError, match="items: list; a dict is needed"):
        zellige.tune([("x", "fp32")], never, "error <= 1")
    with pytest.raises(TypeError, match=r"items\['x'\]: 'fp32'; pairs of a format and its cost"):
        zellige.tune({"x": "fp32"}, never, "error <= 1")
    with pytest.raises(ValueError, match="groups: there is no item 'y'; there are x"):
        zellige.tune(items, never, "error <= 1", groups={"y": "a"})
    with pytest.raises(TypeError, match="accept: 1; an expression or a function"):
        zellige.tune(items, never, 1)
    with pytest.raises(TypeError, match="verify: 'x'; a function of the formats"):
        zellige.tune(items, never, "error <= 1", verify="x")
    with pytest.raises(TypeError, match="trial: None; a function of the formats"):
        zellige.tune(items, None, "error <= 1")
    with pytest.raises(ValueError, match="max_trials: 0"):
        zellige.tune(items, never, "error <= 1", max_trials=0)
    with pytest.raises(ValueError, match="max_time: nan"):
        zellige.tune(items, never, "error <= 1", max_time=float("nan"))
    for returned, said in [(None, "has returned None; a dict"), ({"error": "1"}, "measure 'error': '1'; a number"),
                           ({"error": (1, 2, 3)}, "measure 'error': .* a pair"), ({"error": 1j}, "measure 'error'")]:
        with pytest.raises(TypeError, match=said):
            zellige.tune(items, lambda formats: returned, "error <= 1")
