"""The programs of the documents, and how notebooks are stored."""

import json
import pathlib
import re
import shutil

import pytest

ROOT = pathlib.Path(__file__).parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A file that a page writes in the shell.
FILE = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["docs/tutorials/python.md", "docs/tutorials/loop.md", "docs/how-to/tune.md",
                                  "apps/python/README.md"])
def test_the_programs_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    text = (ROOT / page).read_text()
    shutil.copy(ROOT / "apps/tor/systems/check.toml", tmp_path / "mine.toml")
    for name, file in FILE.findall(text):
        (tmp_path / name).write_text(file)
    monkeypatch.chdir(tmp_path)
    names, blocks = {}, list(BLOCK.finditer(text))
    assert blocks
    for block in blocks:
        before = text.count("\n", 0, block.start(1))
        exec(compile("\n" * before + block[1], page, "exec"), names)


@pytest.mark.parametrize("book", ["task-graph", "systems", "pulse-shapes", "loop"])
def test_notebooks_are_stored_without_outputs(book):
    text = (ROOT / f"apps/python/notebooks/{book}.ipynb").read_text()
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert cells and all(not cell["outputs"] and cell["execution_count"] is None for cell in cells)
