"""What `make notebooks` stores, tried on notebooks of a few cells."""

import base64
import io

from nbclient import NotebookClient
from PIL import Image

from tools.notebooks import run as run_notebooks
from tools.notebooks.run import execute, main, read
from tools.notebooks.store import code_hash, make_storable, source_hash, stale

FIGURE = "from mhalib.plots import new_figure\ndef draw(n=2):\n    return new_figure(f'n is {n}', (1, 1))\n"


def stored(path):
    return make_storable(execute(path))


def code_cells(nb):
    return [cell for cell in nb.cells if cell.cell_type == "code"]


def test_executed_in_order_without_settings_of_the_user_and_the_same_on_every_run(make_notebook, monkeypatch, tmp_path):
    (tmp_path / "profile_default" / "startup").mkdir(parents=True)
    (tmp_path / "profile_default" / "startup" / "mine.py").write_text("leaked = True")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    backend = "import matplotlib\n'inline' in matplotlib.get_backend()"
    path = make_notebook("'leaked' in globals()", "", "object()", "{'b', 'a', 'c'}", backend)
    nb = read(path)
    nb.cells[1].metadata = {"slideshow": {"slide_type": "skip"}, "lines_to_next_cell": 2, "editable": True, "tags": []}
    run_notebooks.write(nb, path)
    first, second = stored(path), stored(path)
    assert first == second
    assert [cell.execution_count for cell in first.cells[1:]] == [1, None, 2, 3, 4]
    assert [first.cells[i].outputs[0].data["text/plain"] for i in (1, 5)] == ["False", "True"]
    assert [cell.id for cell in first.cells] == [cell.id for cell in read(path).cells]
    assert first.cells[1].metadata == {"slideshow": {"slide_type": "skip"}}  # what other tools left is gone
    assert first.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "mhalib": {"source_sha256": source_hash(first), "code_sha256": code_hash(first)},
    }
    first.cells[2].execution_count, first.cells[3].execution_count = None, 7
    assert stale(first) == "its cells were not executed once each, from top to bottom"


def test_pictures_stay_and_widgets_go(make_notebook):
    packed = io.BytesIO()
    Image.new("RGBA", (2, 2), (20, 10, 5, 128)).save(packed, "png", optimize=True)
    png = base64.b64encode(packed.getvalue()).decode()
    bundle = "{'application/vnd.jupyter.widget-view+json': {'model_id': 'x'}, 'image/png': PNG, 'text/plain': 'seen'}"
    path = make_notebook(
        FIGURE + "import ipywidgets\nipywidgets.interact(draw, n=(1, 3));",
        "from tqdm.auto import tqdm\nprint(len([*tqdm(range(3))]))",
        "box = ipywidgets.Output()\nwith box:\n    print('inside')\nipywidgets.VBox([ipywidgets.IntSlider(), box])",
        f"PNG = '{png}'\ndisplay({bundle}, raw=True)",
    )
    picture, progress, inside, (beside,) = (cell.outputs for cell in code_cells(stored(path)))
    assert [set(output.data) for output in picture] == [{"image/png", "text/plain"}]
    assert picture[0].metadata["image/png"]["alt"] == "n is 2"
    assert [output.get("text") for output in progress] == ["3\n"]
    assert [output.get("text") for output in inside] == ["inside\n"]
    assert beside.data == {"image/png": png, "text/plain": "seen"}


def test_names_of_this_machine_are_taken_out(make_notebook):
    path = make_notebook(
        "import mhalib, torch, pathlib, warnings\nprint(torch.__file__, mhalib.__file__, pathlib.Path.home())",
        "warnings.warn('careful')",
        "print(object(), pathlib.Path(mhalib.__file__).parent.parent, 'https://example.org/usr/share/x')",
    )
    files, warning, others = (cell.outputs[0].text for cell in code_cells(stored(path)))
    assert files == "torch/__init__.py mhalib/__init__.py ~\n"
    assert warning.startswith("<cell>:1: UserWarning: careful")
    assert others == "<object object at 0x…> . https://example.org/usr/share/x\n"


def test_what_must_not_be_stored_is_refused_and_the_file_left_alone(make_notebook, capsys):
    for source, message in {
        "print('/srv/data/me')": "cell 2 prints the absolute path /srv/data/me",
        r"print('C:\\Users\\me')": r"cell 2 prints the absolute path C:\Users\me",
        "1 / 0  # by zero": "cell 2 failed: ZeroDivisionError: division by zero\n\n    1 / 0  # by zero",
        "import os; os._exit(1)": "cell 2 failed: Kernel died",
        "print('much too much\\n' * 30_000)": "at most 300 KB, got 750 KB",
        "import ipywidgets\nipywidgets.interact(lambda n: 1 / 0, n=1);": "cell 2 shows ZeroDivisionError",
    }.items():
        path = make_notebook(source)
        before = path.read_bytes()
        assert main([str(path)]) == 1 and path.read_bytes() == before
        assert f"{path.name}, " in (said := capsys.readouterr().out) and message in said


def test_only_what_changed_is_executed(make_notebook, monkeypatch, capsys):
    path = make_notebook("print(1)")
    monkeypatch.setattr(run_notebooks, "NOTEBOOKS", path.parent)

    def call(*arguments):
        return main(list(arguments)), capsys.readouterr().out

    code, said = call("--check")
    assert code == 1 and f"{path.name}: it was never executed" in said
    code, said = call()
    assert code == 0 and path.name in said
    stored = path.read_bytes()
    assert call("--check") == call() == (0, "") and path.read_bytes() == stored
    nb = read(path)
    nb.cells[0].source += " and more"
    run_notebooks.write(nb, path)
    code, said = call("--check")
    assert code == 1 and "its source changed" in said
    ran = nb.cells[1].outputs
    assert (
        call() == (0, f"{path.name}: only its text changed; its outputs stay\n") and read(path).cells[1].outputs == ran
    )
    nb = read(path)
    nb.cells[1].source = "print(2)"
    run_notebooks.write(nb, path)
    assert call()[0] == 0 and read(path).cells[1].outputs[0].text == "2\n"
    assert call("--clear", str(path))[0] == 0
    cleared = read(path)
    assert cleared.cells[1].outputs == [] and cleared.cells[1].execution_count is None and stale(cleared)


def test_a_kernel_whose_port_was_taken_is_started_again(make_notebook, monkeypatch):
    started, plain = [], NotebookClient.async_start_new_kernel_client

    async def taken_at_first(client):
        found = await plain(client)
        started.append(client.km)
        if len(started) == 1:
            await client._async_cleanup_kernel()
            raise RuntimeError("Kernel died before replying to kernel_info")
        return found

    monkeypatch.setattr(NotebookClient, "async_start_new_kernel_client", taken_at_first)
    assert main([str(make_notebook("1 + 1"))]) == 0 and len(set(started)) == 2
