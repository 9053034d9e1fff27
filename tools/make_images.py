"""Draw every picture in `images/`: the same bytes on every run.

    python -m tools.make_images [FOLDER]

Without a folder, into `images/`. A picture is a file of `tools/pictures` with the text for readers who do not see it,
`ALT`, and a function that returns the figure, `draw`; it enters here by its name. Labels, masks, maps and parameter
counts come from mhalib, the lessons from the notebooks. README and site use `ALT`, and each file carries it.
"""

import io
import sys
from importlib import import_module
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

IMAGES = Path(__file__).resolve().parent.parent / "images"
NAMES = "hero roadmap whole_model multi_head_attention masks_and_polarities concat_and_output_projection".split()
PICTURES = {f"{name}.png": import_module(f"tools.pictures.{name}") for name in NAMES}


def main(folder: Path) -> None:
    """Draw all pictures into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the reader's own matplotlibrc says
        for name, picture in PICTURES.items():
            save(picture.draw(), picture.ALT, folder / name)


def save(figure: Figure, alt: str, path: Path) -> None:
    """Store a figure with 256 colours, which look the same and are a third of the bytes, and with its description."""
    drawn, about = io.BytesIO(), PngInfo()
    figure.savefig(drawn, format="png", pil_kwargs={"compress_level": 0})  # it is packed below
    about.add_text("Description", alt)
    image = Image.open(drawn).convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT)
    image.save(path, "png", optimize=True, pnginfo=about)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
