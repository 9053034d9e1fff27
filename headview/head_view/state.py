"""What a reader has chosen in a HeadView: the state that Python and the page share, and what of it cannot be."""

import traitlets

from headview.base import Checked, Refused, View, check_choice, check_whole, is_number, is_place, is_whole
from headview.head_view.first_look import scale_of_shown
from headview.head_view.pyramid import tops_of
from mhalib.plots import COLOUR_MAPS

_PLACES = ("layer", "head", "query", "key")
_OVERLAY = 32  # eight colours times four kinds of line
_SPEC = ("part", "sample", "side", "heads", "combine", "values", "hidden", "renormalise", "words")


class Chosen(View):
    """The traits of a HeadView that a reader sets, by hand or in Python; each refuses what cannot be shown."""

    parts = traitlets.List().tag(sync=True)  # what a page must know of each, as `metadata` writes it
    sides = traitlets.List(traitlets.Unicode()).tag(sync=True)  # names of what is compared, or one empty text
    part = traitlets.TraitType(0).tag(sync=True)
    sample = traitlets.TraitType(0).tag(sync=True)
    layer = traitlets.TraitType(0).tag(sync=True)
    head = traitlets.TraitType(0).tag(sync=True)
    query = traitlets.TraitType(0).tag(sync=True)
    key = traitlets.TraitType(0).tag(sync=True)
    rows = traitlets.TraitType().tag(sync=True)
    mode = Checked("map", check_choice, ("map", "lines", "across", "text")).tag(sync=True)
    direction = Checked("from", check_choice, ("from", "to")).tag(sync=True)
    scale = Checked("auto", check_choice, ("auto", "fixed", "maximum", "log", "root")).tag(sync=True)
    combine = Checked("maximum", check_choice, ("maximum", "mean")).tag(sync=True)
    overlay = traitlets.TraitType().tag(sync=True)
    window = traitlets.TraitType().tag(sync=True)
    side = Checked("both", check_choice, ("both", "a", "b", "difference")).tag(sync=True)
    values = Checked("weights", check_choice, ("weights", "values", "rollout")).tag(sync=True)
    words = traitlets.Bool(False).tag(sync=True)
    hidden = traitlets.TraitType().tag(sync=True)
    renormalise = traitlets.Bool(True).tag(sync=True)
    colours = Checked(COLOUR_MAPS[0], check_choice, COLOUR_MAPS).tag(sync=True)
    order = traitlets.TraitType("model").tag(sync=True)
    neurons = traitlets.Bool(False).tag(sync=True)
    reasons = traitlets.Bool(False).tag(sync=True)
    strength = traitlets.TraitType(0.75).tag(sync=True)
    least = traitlets.TraitType(0.1).tag(sync=True)
    measures = traitlets.List(traitlets.Unicode()).tag(sync=True)
    group = traitlets.Unicode("").tag(sync=True)
    heads = Checked("chosen", check_choice, ("chosen", "layer", "all")).tag(sync=True)

    @property
    def shape(self) -> list[int]:
        """`[layers, h, Tq, Tk]` of the chosen part."""
        return self.parts[self.part]["shape"]

    @property
    def tokens(self) -> list[str]:
        """The labels of the queries, as shown."""
        return self._of_sample(self.parts[self.part]["tokens"])

    @property
    def key_tokens(self) -> list[str]:
        """The labels of the keys, as shown."""
        return self._of_sample(self.parts[self.part]["key_tokens"])

    def _of_sample(self, labels: list[list[str]]) -> list[str]:
        return labels[min(self.sample, len(labels) - 1)] if labels else []

    @traitlets.validate("part", "sample", "layer", "head", "query", "key")
    def _check_place(self, proposal):
        name, value = proposal["trait"].name, proposal["value"]
        sizes = {"part": len(self.parts), "sample": self.parts[self.part]["samples"]}
        sizes |= zip(_PLACES, self.shape, strict=True)
        check_whole(name, value, 0, sizes[name] - 1)
        return value

    @traitlets.observe("part")
    def _keep_inside(self, change):
        for name, size in zip(_PLACES, self.shape, strict=True):
            if getattr(self, name) >= size:
                setattr(self, name, 0)
        self.rows = [row for row in self.rows if row < self.shape[2]]
        self.overlay = [pair for pair in self.overlay if pair[0] < self.shape[0] and pair[1] < self.shape[1]]
        self.sample = min(self.sample, self.parts[self.part]["samples"] - 1)
        if self._lacks(self.values):
            self.values = "weights"

    @traitlets.validate("order")
    def _check_order(self, proposal):
        check_choice("order", proposal["value"], ("model", *self.measures, "likeness", "cell"))
        return proposal["value"]

    @traitlets.validate("values")
    def _check_values(self, proposal):
        if lacks := self._lacks(proposal["value"]):
            raise Refused(f"values={proposal['value']!r} needs {lacks}")
        return proposal["value"]

    def _lacks(self, values: str) -> str:
        """Return what these values need and the chosen part does not have, or nothing."""
        part = self.parts[self.part]
        _, _, queries, keys = part["shape"]
        if values == "values" and not part["has_values"]:
            return "value vectors, and this part holds none; capture them too: capture(model, qkv=True)"
        if values == "rollout" and (queries != keys or part["kind"] == "signed"):
            return (
                f"weights of tokens on themselves, and this part holds {part['kind']}, {queries} queries by {keys} keys"
            )
        return ""

    @traitlets.observe("heads")
    def _begin_with_mean(self, change):
        if change["old"] == "chosen":  # a reader who then wants the maximum asks for it
            self.combine = "mean"

    @traitlets.validate("overlay")
    def _check_heads(self, proposal):
        (layers, heads), given = self.shape[:2], proposal["value"]
        if not _is_list(given, lambda pair: is_place(pair, (layers, heads))):
            raise Refused(
                f"overlay is a list of [layer, head], such as [[0, 1]], layer below {layers} and head below {heads}, "
                f"got {given!r}"
            )
        unique = [list(pair) for pair in dict.fromkeys(map(tuple, given))]
        if len(unique) > _OVERLAY:
            raise Refused(f"overlay holds at most {_OVERLAY} heads, got {len(unique)}")
        return unique

    @traitlets.validate("window")
    def _check_window(self, proposal):
        given = proposal["value"]
        four = _is_list(given, lambda x: isinstance(x, (int, float))) and len(given) in (0, 4)
        if not four or (given and not (given[0] < given[1] and given[2] < given[3])):
            raise Refused(
                f"window is [first query, end, first key, end], such as [0, 64, 0, 64], or [] for all, got {given!r}"
            )
        return list(given)

    @traitlets.validate("strength", "least")
    def _check_share(self, proposal):
        name, given = proposal["trait"].name, proposal["value"]
        if not is_number(given) or not 0 <= given <= 1:
            none = "leaves the picture as it is" if name == "strength" else "draws all lines"
            raise Refused(f"{name} must be a number from 0 to 1, got {given!r}; 0 {none}")
        return float(given)

    @traitlets.validate("rows", "hidden")
    def _check_list(self, proposal):
        name, given, last = proposal["trait"].name, proposal["value"], self.shape[2] - 1
        holds, what = {
            "rows": (lambda i: is_whole(i) and 0 <= i <= last, f"queries from 0 to {last} whose weights are summed"),
            "hidden": (lambda label: isinstance(label, str), "labels of tokens, such as ['[CLS]', '[SEP]']"),
        }[name]
        if not _is_list(given, holds):
            raise Refused(f"{name} is a list of {what}, got {given!r}")
        return list(dict.fromkeys(given))

    def scale_of(self, maps: list[tuple[float, bool]]) -> tuple[str, list[float]]:
        """Return the scale of maps that stand side by side, and where it ends for each.

        Of each map is given its largest number, and whether it is signed. What is compared shares one end; a
        difference, which is signed beside what is not, has its own. Where there is no number but 0, it is 1.
        """
        about = self.parts[self.part]
        most = [max((top for top, signed in maps if signed == of), default=0.0) for of in (False, True)]
        kind, end = self.scale, 1.0
        if kind == "auto":
            small = [self._blocks.small(self.part, self.sample, side) for side in self._blocks.sides]
            kind, end = scale_of_shown(about["auto"], most[False], max(float(tops_of(each).max()) for each in small))
        follows = kind == "maximum" or about["kind"] in ("signed", "positive") or self.values == "values"
        own = follows, follows or self.scale == "auto"  # has it an end of its own, what is not signed and what is?
        return kind, [max(most[signed] or 1.0, 1e-9) if own[signed] else end for _, signed in maps]

    def labels_shown(self, axis: int, side: str) -> list[str]:
        """Return the labels of the queries (0) or keys (1) of a side; of both, or their difference, "tired / wide"."""
        given, compared = (self.tokens, self.key_tokens)[axis], self.parts[self.part]["compared"]
        if compared is None or side == "a":
            return given
        other = self._of_sample(compared[axis])
        if side == "b" or not given or not other:
            return other if side == "b" else given
        return [one if one == two else f"{one} / {two}" for one, two in zip(given, other, strict=True)]

    def beside(self, groups: list[list[int]], axis: int, side: str | None = None) -> list[str]:
        """Return what stands beside rows (axis 0) or columns (1) that stand for these tokens, on the side in sight."""
        names = self.labels_shown(axis, side or self.side) or list(map(str, range(self.shape[2 + axis])))
        return ["".join(names[token] for token in group) for group in groups]

    def named(self) -> tuple[list[str], list[str]]:
        """Return the labels of queries and keys, as the first side has them; numbers where they lack."""
        return tuple(self.beside([[i] for i in range(size)], axis, "a") for axis, size in enumerate(self.shape[2:]))

    def shown_heads(self) -> list[list[int]]:
        """Return which heads are in the large picture, as `[layer, head]` each."""
        if self.heads != "chosen":
            layers = range(self.shape[0]) if self.heads == "all" else [self.layer]
            return [[layer, head] for layer in layers for head in range(self.shape[1])]
        chosen = [self.layer, self.head]
        return self.overlay if chosen in self.overlay else [chosen, *self.overlay]

    def shown_sides(self) -> list[str]:
        """Return which sides of a comparison are in the large picture: "a", "b", "difference"."""
        if len(self.sides) < 2:
            return ["a"]
        return ["a", "b", "difference"] if self.side == "both" else [self.side]

    def spec(self, side: str | None = None, heads: list | None = None) -> dict:
        """Return what is on screen, in the order in which the page writes it."""
        heads = heads or self.shown_heads()
        combine = self.combine if len(heads) > 1 else "maximum"
        left = not self.hidden or all(any(label not in self.hidden for label in labels) for labels in self.named())
        hidden = self.hidden if left else []  # as on the page: where nothing would be left, all is shown
        state = {"side": side or self.shown_sides()[0], "heads": heads, "combine": combine, "hidden": hidden}
        return {name: state.get(name, getattr(self, name, None)) for name in _SPEC}


def _is_list(given: object, holds) -> bool:
    return isinstance(given, (list, tuple)) and all(map(holds, given))


# The traits that the constructor takes: those that a reader sets, a part before the places in it.
_TOLD = ("parts", "sides", "measures", "group")
SETTABLE = [
    name for name, trait in vars(Chosen).items() if isinstance(trait, traitlets.TraitType) and name not in _TOLD
]
