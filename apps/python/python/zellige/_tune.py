"""Searches for the cheapest formats of a computation."""

from __future__ import annotations

import json as _json
import os as _os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass as _dataclass
from typing import Any, Union

from . import _zellige

#: Formats by item.
Formats = dict[str, str]
#: A number, or the mean of a sample and its standard error.
Measure = Union[float, tuple[float, float]]
#: Measures by name, or a text with the reason for which there are none.
Returned = Union[Mapping[str, Measure], str]


@_dataclass(frozen=True)
class Trial:
    """A trial of `tune`, with its verdict.

    Attributes
    ----------
    formats : dict
        The format of each item.
    measures : dict
        Numbers, or pairs of a mean and its standard error. Empty if the trial has failed.
    cost : float or None
        None if the trial has failed.
    quality : float or None
        Distance from the limit of the acceptance: 1 for the reference, 0 at the limit, negative beyond. None if the trial
        has failed, and for an acceptance that is no expression.
    verdict : str
        ``accepted``, ``rejected`` or ``failed``.
    reason : str
        The comparison that does not hold, or the text of the trial; empty if it is accepted.
    seconds : float
        Time of the trial.
    logged : bool
        Whether the trial was read from the log.
    data : str
        ``search``, or ``verify`` for data that the search has not seen.
    """

    formats: Formats
    measures: dict[str, Measure]
    cost: float | None
    quality: float | None
    verdict: str
    reason: str
    seconds: float
    logged: bool
    data: str


@_dataclass(frozen=True, repr=False)
class TuneResult:
    """Result of `tune`. ``str`` of it is the text of ``zellige tune``.

    Attributes
    ----------
    best : Trial
        The cheapest accepted trial; if there is a verification, the cheapest one that is accepted there, too.
    reference : Trial
        The trial with the last format of each item.
    front : list of Trial
        Trials that no other one surpasses in cost and quality, from cheap to dear.
    trials : list of Trial
        All trials in their order, and then those of the verification.
    ended : str
        ``minimal``: no single item of the cheapest accepted trial can be lowered. ``trials`` and ``seconds``: the budget
        is spent.
    verified : Trial or None
        The trial of the best formats on data that the search has not seen.
    """

    best: Trial
    reference: Trial
    front: list[Trial]
    trials: list[Trial]
    ended: str
    verified: Trial | None
    _text: str

    @property
    def formats(self) -> Formats:
        """The format of each item in the best trial."""
        return self.best.formats

    @property
    def cost(self) -> float | None:
        """The cost of the best trial."""
        return self.best.cost

    def __repr__(self) -> str:
        return (f"<TuneResult of cost {self.cost:g} beside {self.reference.cost:g}, {len(self.trials)} trials, ended: "
                f"{self.ended}>")

    def __str__(self) -> str:
        return self._text.rstrip()


def tune(items: Mapping[str, Sequence[tuple[str, float]]], trial: Callable[[Formats], Returned],
         accept: str | Callable[[dict[str, Measure], dict[str, Measure]], Any], *, groups: Mapping[str, str] | None = None,
         cost: str | None = None, verify: Callable[[Formats], Returned] | None = None, max_trials: int | None = None,
         max_time: float | None = None, log: str | _os.PathLike[str] | None = None) -> TuneResult:
    """Find the cheapest formats of a computation that still meet a criterion.

    >>> import numpy as np, zellige
    >>> k = np.arange(1, 100001)
    >>> def trial(formats):
    ...     terms = (1 / k).astype(formats["terms"])
    ...     return {"sum": np.cumsum(terms, dtype=formats["sum"])[-1]}
    >>> types = [("float32", 4), ("float64", 8)]
    >>> found = zellige.tune({"terms": types, "sum": types}, trial, "abs(sum - REF.sum) < 1e-7 * REF.sum")
    >>> found.formats, found.cost, found.ended
    ({'terms': 'float32', 'sum': 'float64'}, 12.0, 'minimal')

    The result is 1-minimal: no single item can go to any of its lower formats, unless the budget ends the search before.
    Exceptions of the callables end the search and are raised by it, as is Ctrl-C; the log keeps the trials before.

    Parameters
    ----------
    items : dict
        For each item its formats with their costs (bytes, seconds), from cheap to dear. The last format of each item makes
        the reference.
    trial : callable
        Gets a dict with the format of each item. It returns a dict of measures: numbers, or pairs of a mean and its
        standard error. A text in its place says why there is no result, and the formats are rejected.
    accept : str or callable
        A condition over the measures, such as ``error <= 2 * REF.error && steps < 100``; ``REF`` has those of the
        reference. A comparison of means holds if it holds by 1.645 standard errors. Or a function of two dicts, the
        measures of a trial and of the reference, which returns whether the trial is accepted.
    groups : dict, optional
        Paths such as ``loop/inner`` by item. The search lowers whole groups first.
    cost : str, optional
        The cost of a trial as an expression over its measures, e.g. ``seconds``. By default it is the sum of the costs
        of its formats.
    verify : callable, optional
        A trial on data that the search does not see. If the result is not accepted there, the next dearer accepted trial
        is tried, up to ten, and then the reference.
    max_trials : int, optional
        Most trials of the search. The cheapest accepted one so far is the result.
    max_time : float, optional
        Seconds after which no trial of the search starts.
    log : path, optional
        File to which each trial is appended, and from which a search goes on. Its trials may be judged by another
        `accept`. Those of other items, or of a `trial` with another name, are refused.

    Raises
    ------
    Error
        For items and expressions that cannot be used, at once. After the trial of the reference: if it has failed or is
        not accepted, and for names in an expression that it has not measured, with those that there are.
    TypeError, ValueError
        For arguments of another form.
    """
    if not (isinstance(accept, str) or callable(accept)):
        raise TypeError(f"accept: {accept!r}; an expression or a function is needed")
    for name, function in (("trial", trial), ("verify", verify)):
        if not (callable(function) or name == "verify" and function is None):
            raise TypeError(f"{name}: {function!r}; a function of the formats is needed")
    if max_trials is not None and max_trials < 1:
        raise ValueError(f"max_trials: {max_trials}; at least the reference is tried, 1")
    if max_time is not None and not max_time >= 0:
        raise ValueError(f"max_time: {max_time}; a number of seconds is needed")

    def run(formats: Formats, is_verification: bool) -> list[tuple[str, float, float]] | str:
        return _measures(verify(formats) if is_verification and verify else trial(formats))

    settings = dict(max_trials=max_trials, max_time=max_time, cost=cost, log=log, subject=_name(trial),
                    verify=verify is not None)
    json, text = _zellige.tune(_items(items, groups or {}), run,
                               accept if isinstance(accept, str) else (_name(accept), accept), settings)
    return _result(_json.loads(json), text)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _items(items: Any, groups: Mapping[str, str]) -> list[tuple[str, str, list[tuple[str, float]]]]:
    if not isinstance(items, Mapping):
        raise TypeError(f"items: {type(items).__name__}; a dict is needed, {{'matrix': [('fp32', 4), ('fp64', 8)]}} say")
    for name in groups:
        if name not in items:
            raise ValueError(f"groups: there is no item {name!r}; there are {', '.join(map(str, items))}")
    return [(name, groups.get(name, ""), _formats(name, formats)) for name, formats in items.items()]


def _formats(item: str, formats: Any) -> list[tuple[str, float]]:
    try:
        pairs = [(name, float(cost)) for name, cost in formats]
    except (TypeError, ValueError):
        pairs = None
    if pairs is None or not all(isinstance(name, str) for name, _ in pairs):
        raise TypeError(f"items[{item!r}]: {formats!r}; pairs of a format and its cost are needed, [('fp32', 4), ('fp64', "
                        "8)] say")
    return pairs


def _measures(returned: Any) -> list[tuple[str, float, float]] | str:
    if isinstance(returned, str):
        return returned
    if not isinstance(returned, Mapping):
        raise TypeError(f"the trial has returned {returned!r}; a dict of measures is needed, {{'error': 1e-3}} say, or a "
                        "text with the reason for which there are none")
    return [(str(name), *_measure(name, value)) for name, value in returned.items()]


def _measure(name: Any, value: Any) -> tuple[float, float]:
    try:
        number, error = value if isinstance(value, tuple) else (value, 0.0)
        if not isinstance(number, str) and not isinstance(error, str):
            return float(number), float(error)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"measure {name!r}: {value!r}; a number is needed, or a pair of a mean and its standard error")


def _result(written: dict[str, Any], text: str) -> TuneResult:
    trials = [_trial(each) for each in written["trials"]]
    verified = written["verified"]
    return TuneResult(best=trials[written["best"]], reference=trials[written["reference"]],
                      front=[trials[at] for at in written["front"]], trials=trials, ended=written["ended"],
                      verified=None if verified is None else trials[verified], _text=text)


def _trial(written: dict[str, Any]) -> Trial:
    judged = written.pop("verdict")
    # A reason comes with the verdict.
    verdict, reason = (judged, "") if isinstance(judged, str) else next(iter(judged.items()))
    measures: dict[str, Measure] = {}
    for name, measure in written.pop("measures").items():
        measures[name] = (measure["value"], measure["error"]) if "error" in measure else measure["value"]
    return Trial(measures=measures, verdict=verdict, reason=reason, **written)
