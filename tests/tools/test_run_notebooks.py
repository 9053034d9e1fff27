"""What `make notebooks` stores, tried on notebooks of a few cells."""

import base64
import io
from copy import deepcopy

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_output
from PIL import Image

from tools.notebooks import run as run_notebooks
from tools.notebooks.run import execute, main, read
from tools.notebooks.store import NotebookError, code_hash, make_storable, source_hash, stale

SETTINGS = "import matplotlib\n'leaked' in globals(), 'inline' in matplotlib.get_backend()"
BUNDLE = "{'application/vnd.jupyter.widget-view+json': {'model_id': 'x'}, 'image/png': PNG, 'text/plain': 'seen'}"
DRAW = "from mhalib.plots import new_figure\ndef draw(n=2):\n    return new_figure(f'n is {n}', (1, 1))\n"


def texts(cell):
    return [output.get("text") or output.data["text/plain"] for output in cell.outputs]


def test_pictures_and_texts_are_stored_the_same_on_every_run_without_widgets_settings_or_names_of_a_machine(
    make_notebook, monkeypatch, tmp_path
):
    (tmp_path / "profile_default" / "startup").mkdir(parents=True)
    (tmp_path / "profile_default" / "startup" / "mine.py").write_text("leaked = True")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    packed = io.BytesIO()
    Image.new("RGBA", (2, 2), (20, 10, 5, 128)).save(packed, "png", optimize=True)
    png = base64.b64encode(packed.getvalue()).decode()
    path = make_notebook(
        SETTINGS,
        "",
        "object(), {'b', 'a', 'c'}",
        DRAW + "import ipywidgets\nipywidgets.interact(draw, n=(1, 3));",
        "from tqdm.auto import tqdm\nprint(len([*tqdm(range(3))]))",
        "box = ipywidgets.Output()\nwith box:\n    print('inside')\nipywidgets.VBox([ipywidgets.IntSlider(), box])",
        f"PNG = '{png}'\ndisplay({BUNDLE}, raw=True)",
        "import sys, torch, warnings\nprint(torch.__file__, '/srv/data/me', sys.prefix + '/x.py')",
        "warnings.warn('careful')",
        r"print(object(), 'https://example.org/usr/share/x', 'C:\\Users\\me')",
        "ipywidgets.interact(lambda n: 1 / 0, n=1);",
    )
    nb = read(path)
    nb.cells[1].metadata = {"slideshow": {"slide_type": "skip"}, "lines_to_next_cell": 2, "editable": True, "tags": []}
    run_notebooks.write(nb, path)
    first, second = execute(path), execute(path)
    with pytest.raises(NotebookError, match="cell 12 shows ZeroDivisionError"):
        make_storable(deepcopy(first))
    for nb in (first, second):
        del nb.cells[-1]
        make_storable(nb)
    assert first == second and [cell.id for cell in first.cells] == [cell.id for cell in read(path).cells[:-1]]
    assert first.cells[1].metadata == {"slideshow": {"slide_type": "skip"}}  # what other tools left is gone
    assert first.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "mhalib": {"source_sha256": source_hash(first), "code_sha256": code_hash(first)},
    }
    _, settings, empty, _, interact, progress, inside, beside, files, warning, others = first.cells
    assert texts(settings) == ["(False, True)"] and empty.execution_count is None
    assert [set(output.data) for output in interact.outputs] == [{"image/png", "text/plain"}]
    assert interact.outputs[0].metadata["image/png"]["alt"] == "n is 2"
    assert texts(progress) == ["3\n"] and texts(inside) == ["inside\n"]
    assert beside.outputs[0].data == {"image/png": png, "text/plain": "seen"}
    assert texts(files) == ["…/__init__.py …/me …/x.py\n"]
    assert texts(warning)[0].startswith("<cell>:1: UserWarning: careful")
    assert texts(others) == ["<object object at 0x…> https://example.org/usr/share/x …/me\n"]
    first.cells[2].execution_count, first.cells[3].execution_count = None, 7
    assert stale(first) == "its cells were not executed once each, from top to bottom"


def test_what_must_not_be_stored_is_refused_and_the_file_left_alone(make_notebook, capsys):
    for source, message in {
        "1 / 0  # by zero": "cell 2 failed: ZeroDivisionError: division by zero\n\n    1 / 0  # by zero",
        "import os; os._exit(1)": "cell 2 failed: Kernel died",
    }.items():
        path = make_notebook(source)
        before = path.read_bytes()
        assert main([str(path)]) == 1 and path.read_bytes() == before
        assert f"{path.name}, " in (said := capsys.readouterr().out) and message in said
    nb = read(path)
    nb.cells[1].outputs = [new_output("stream", text="much too much\n" * 30_000)]
    with pytest.raises(NotebookError, match="at most 300 KB, got 750 KB"):
        make_storable(nb)


def test_only_what_changed_is_executed(make_notebook, monkeypatch, capsys):
    path, ran = make_notebook("print(1)"), []

    def executed(path):
        nb = read(path)
        ran.append(nb.cells[1].source)
        nb.cells[1].outputs, nb.cells[1].execution_count = [new_output("stream", text=f"run {len(ran)}")], 1
        return nb

    monkeypatch.setattr(run_notebooks, "NOTEBOOKS", path.parent)
    monkeypatch.setattr(run_notebooks, "execute", executed)

    def call(*arguments):
        return main(list(arguments)), capsys.readouterr().out

    def change(number, source):
        nb = read(path)
        nb.cells[number].source = source
        run_notebooks.write(nb, path)

    code, said = call("--check")
    assert code == 1 and f"{path.name}: it was never executed" in said
    code, said = call()
    assert code == 0 and path.name in said
    stored = path.read_bytes()
    assert call("--check") == call() == (0, "") and path.read_bytes() == stored
    change(0, "# 00 · A notebook and more")
    code, said = call("--check")
    assert code == 1 and "its source changed" in said
    assert call() == (0, f"{path.name}: only its text changed; its outputs stay\n") and ran == ["print(1)"]
    change(1, "print(2)")
    assert call()[0] == 0 and ran == ["print(1)", "print(2)"] and read(path).cells[1].outputs[0].text == "run 2"
    assert call("--clear", str(path))[0] == 0
    cleared = read(path)
    assert cleared.cells[1].outputs == [] and cleared.cells[1].execution_count is None and stale(cleared)


def test_a_kernel_whose_port_was_taken_is_started_again(make_notebook, monkeypatch):
    asked, plain = [], NotebookClient.async_start_new_kernel_client

    async def taken_at_first(client):
        asked.append(client.km)
        if len(asked) == 1:
            raise RuntimeError("Kernel died before replying to kernel_info")
        return await plain(client)

    monkeypatch.setattr(NotebookClient, "async_start_new_kernel_client", taken_at_first)
    assert main([str(make_notebook("1 + 1"))]) == 0 and len(set(asked)) == 2
