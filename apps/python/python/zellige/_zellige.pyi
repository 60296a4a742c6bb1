from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CATEGORIES", "Cholesky", "Crystal", "Error", "Graph", "Handle", "Runtime", "Scope", "Search", "Task", "covariances",
    "digits", "reconstruct", "report_text", "solve", "text", "trust", "trust_text", "tune",
]

class Error(RuntimeError): ...

@final
class Handle: ...

@final
class Task:
    def cancel(self) -> None: ...

@final
class Graph:
    def __len__(self) -> int: ...

# The function, pairs of a mode (0 read, 1 update, 2 write) and a handle or a list of handles, name, priority.
_Call = tuple[Callable[..., Any], Sequence[tuple[int, Handle | Sequence[Handle]]], str, int]

@final
class Runtime:
    def __new__(
        cls, workers: int | None, policy: str | None, window: int | None, bind: bool | None, trace: bool
    ) -> Runtime: ...
    @property
    def workers(self) -> int: ...
    @property
    def policy(self) -> str: ...
    def register(self, value: Any, name: str | None = None) -> Handle: ...
    def register_empty(self, name: str | None = None) -> Handle: ...
    def submit(self, call: _Call) -> Task: ...
    def record(self, calls: list[_Call]) -> Graph: ...
    # Names of recorded handles, and the handles to use in their place.
    def replay(self, graph: Graph, bind: list[tuple[str, Handle]]) -> Task: ...
    def read(self, handle: Handle) -> Any: ...
    def take(self, handle: Handle) -> Any: ...
    def wait(self, task: Task) -> None: ...
    def wait_all(self) -> None: ...
    def cancel_all(self) -> None: ...
    def write_trace(self, path: str | PathLike[str]) -> None: ...

@final
class Cholesky:
    # Rows of a tile; 256 where it is None.
    def __new__(cls, a: NDArray[np.float64], rule: str, tile: int | None) -> Cholesky: ...
    @property
    def tile(self) -> int: ...
    @property
    def shares(self) -> list[tuple[str, float]]: ...
    def solve(self, b: NDArray[np.float64]) -> NDArray[np.float64]: ...
    # The solution, its relative residual, and the number of refinement steps.
    def refine(self, b: NDArray[np.float64], tolerance: float) -> tuple[NDArray[np.float64], float, int]: ...
    # JSON, as of the other functions of this name. Of the factor alone where there are no right-hand sides.
    def trust(self, b: NDArray[np.float64] | None, samples: int, seed: int) -> str: ...

# Signals by point or event, channel and sample; options as of `zellige psa run`.
# Answers: an array for each field of `psa.Hits`.
@final
class Search:
    def __new__(
        cls, basis: NDArray[np.float32], positions: NDArray[np.float32], options: dict[str, Any]
    ) -> Search: ...
    def locate(self, events: NDArray[np.float32], energies: NDArray[np.float64]) -> dict[str, Any]: ...
    def trust(self, events: NDArray[np.float32], energies: NDArray[np.float64], samples: int, seed: int) -> str: ...

@final
class Crystal:
    def __new__(
        cls,
        basis: NDArray[np.float32],
        positions: NDArray[np.float32],
        segments: NDArray[np.int64],
        options: dict[str, Any],
        events: dict[str, Any],
    ) -> Crystal: ...
    def locate(self, events: NDArray[np.float32]) -> dict[str, Any]: ...

# (indptr, indices, data) of a CSR matrix.
_Parts = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

# The solutions are written to the columns of `x`.
def solve(
    parts: _Parts,
    width: int,
    b: NDArray[np.float64],
    x: NDArray[np.float64],
    given: dict[str, str | float | int | None],
) -> list[dict[str, Any]]: ...
def trust(
    parts: _Parts,
    width: int,
    b: NDArray[np.float64],
    given: dict[str, str | float | int | None],
    samples: int,
    seed: int,
) -> str: ...

# Stochastic numbers: a row holds the samples of a number, in float64 or float32.
_Numbers = NDArray[np.float64] | NDArray[np.float32]

CATEGORIES: list[str]

@final
class Scope:
    # The last argument returns file, line and column of the program.
    def __new__(
        cls, seed: int, perturbation: str, categories: list[str], place: Callable[[], tuple[str, int, int]]
    ) -> Scope: ...
    # A ufunc by its name, or "sum" and "matmul" with `length` terms.
    def compute(self, name: str, operands: list[Any], length: int) -> Any: ...
    def perturbed(self, numbers: _Numbers, error: float) -> Any: ...
    def single(self, numbers: _Numbers) -> Any: ...
    def report(self) -> str: ...

# Means, and exact digits.
def digits(numbers: _Numbers) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
def text(numbers: _Numbers) -> list[str]: ...

# Texts of what was returned as JSON.
def report_text(json: str) -> str: ...
def trust_text(json: str) -> str: ...

# Files are those of the system and, where it is another one, of the atmosphere. Results as JSON, and for each
# target the reconstructor and its image with the size of a pixel (arcsec).
def reconstruct(
    files: tuple[str | PathLike[str], str | PathLike[str] | None],
    rule: str,
    targets: Sequence[Sequence[float]] | None,
    tile: int | None,
    refine: int,
) -> tuple[str, list[NDArray[np.float64]], list[tuple[NDArray[np.float64], float]]]: ...

# Cmm, Ctm of each target, Ctt.
def covariances(
    files: tuple[str | PathLike[str], str | PathLike[str] | None], targets: Sequence[Sequence[float]] | None
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]], NDArray[np.float64]]: ...

# Items: name, group, and formats with their costs. The trial has formats by item, and whether they are verified; it
# returns measures with standard errors, or why it has failed. Result as JSON and as text.
def tune(
    items: list[tuple[str, str, list[tuple[str, float]]]],
    trial: Callable[[dict[str, str], bool], list[tuple[str, float, float]] | str],
    accept: str | tuple[str, Callable[[dict[str, Any], dict[str, Any]], Any]],
    settings: dict[str, Any],
) -> tuple[str, str]: ...
