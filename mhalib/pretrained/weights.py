"""Where the weights of a model that others trained may lie, and that they are the right ones.

A model is one record, `Pretrained`; what is computed with its weights is said in `bert`. The network is asked only when
you say `download=True`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Pretrained:
    """A model that others trained: where its files come from, and how they are read.

    Attributes:
        name: what readers call it.
        repository, revision: where the hub of Hugging Face has it, and which state of it.
        sha256: name of each file -> its hash; what has another one is not loaded.
        size: of the download, for readers.
        package: an installed package that may carry the same files in its folder `model`; none of its code is run.
        sizes: what `SentenceModel` is called with.
        names: pairs of what the file calls a part and what it is called here; the first that fits counts.
        unused: beginnings of the names of what is left out.
    """

    name: str
    repository: str
    revision: str
    sha256: Mapping[str, str]
    size: str
    package: str | None
    sizes: Mapping[str, int]
    names: tuple[tuple[str, str], ...]
    unused: tuple[str, ...]

    @property
    def how_to_get_it(self) -> str:
        """What to do where the files are missing."""
        first = ", with `make weights`; without make, " if self.package else ": "
        return (
            f"fetch them once, {self.size}{first}`python -m mhalib.pretrained --download` puts them into the cache of "
            "Hugging Face"
        )


class WeightsMissing(FileNotFoundError):
    """The weights of the real model are not on this machine.

    Raised by `load_minilm`; notebooks 10 and 11 go on without.
    """


def find(record: Pretrained, folder: str | Path | None = None, *, download: bool = False) -> Path:
    """Return the folder that holds the files of a model; they are not verified here.

    Args:
        record: which model.
        folder: where they lie; when left out, its package and the cache of Hugging Face are looked into.
        download: whether the hub may be asked for them when they are not there; without it, no network is used.

    Raises:
        WeightsMissing: they are not there, or the download was cut off.
    """
    if folder is not None:
        folder = Path(folder)
        if absent := [name for name in record.sha256 if not (folder / name).is_file()]:
            raise WeightsMissing(f"no {' and no '.join(absent)} in {folder}; {record.how_to_get_it}")
        return folder
    package = find_spec(record.package) if record.package else None  # finds it without running it
    if package is not None and package.submodule_search_locations:
        inside = Path(package.submodule_search_locations[0]) / "model"
        if all((inside / name).is_file() for name in record.sha256):
            return inside
    # Only now, because few need it. It draws the bar, and takes a lost connection up again where it broke.
    from huggingface_hub import hf_hub_download

    try:
        options = {"revision": record.revision, "local_files_only": not download}
        paths = [Path(hf_hub_download(record.repository, name, **options)) for name in record.sha256]
    except Exception as error:  # on the way, the errors of several libraries come through as they are
        if download:
            text = f"The weights of {record.name} did not arrive ({error}); run it again when the network is back"
            raise WeightsMissing(text) from error
        if not isinstance(error, FileNotFoundError):
            raise
        text = f"The weights of {record.name} are not on this machine; {record.how_to_get_it}"
        raise WeightsMissing(text) from None
    return paths[0].parent


def read_verified(record: Pretrained, folder: Path) -> dict[str, bytes]:
    """Return what stands in the files of a model, read once: what was verified is what is loaded.

    Raises:
        ValueError: a file is not the pinned one.
    """
    found = {name: (folder / name).read_bytes() for name in record.sha256}
    for name, content in found.items():
        seen, wanted = hashlib.sha256(content).hexdigest(), record.sha256[name]
        if seen != wanted:
            raise ValueError(
                f"{folder / name} is not the pinned file: expected sha256 {wanted}, got {seen} ({len(content)} bytes); "
                f"nothing of it was loaded. Delete it, then {record.how_to_get_it}"
            )
    return found
