"""The labels of a view: marks of tokenizers taken off, bytes spelled, words told, and what lies under an axis."""

import numpy as np
import pytest
import torch
from PIL import Image

from headview import HeadView
from headview.head_view.inputs import as_parts
from headview.head_view.labels import cleaned, words_of
from headview.head_view.names import short_names, telling_parts
from headview.head_view.patches import picture_for, pixels_of
from tests.helpers.head_view_examples import some


def test_names_are_cut_to_what_tells_them_apart():
    for names, told, short in (
        ("layer 0|layer 1|layer 12", "0|1|12", ""),
        ("encoder.0.attn|decoder.0.attn", "encoder|decoder", ""),
        ("text.layers.1.attn|text.layers.1.cross|text.layers.2.attn", "1.attn|1.cross|2.attn", ""),
        ("a|b", "a|b", ""),
        ("down.attn|up", "down.attn|up", ""),
        ("h.5.attn", "5", "layer 5"),
        ("h.1.x|h.2.x", "1|2", "layer 1|layer 2"),
        ("0|2", "0|2", "layer 0|layer 2"),  # of nn.Sequential
        ("h.1.x|h.1.x call 2", "x|x call 2", "call 1|call 2"),
        ("|", "|", ""),
        ("the first of them all|b", "…t of them all|b", ""),
    ):
        assert telling_parts(names.split("|")) == told.split("|")
        assert short_names(names.split("|")) == (short or names).split("|")


# ---------------------------------------------------------------- marks


def test_marks_of_tokenizers_are_taken_off_and_tell_the_words():
    for given, shown, words in (
        ("[CLS] un ##believ ##able ! [SEP]", "[CLS] un believ able ! [SEP]", "011123"),
        ("The Ġcat s Ċ Ġ Ġsat", "The cat s ↵ ␣ sat", "011234"),
        ("<s> ▁The ▁cat s <0x0A> ▁", "<s> The cat s ↵ ␣", "012234"),
        ("<|startoftext|> a</w> pho to</w> <|endoftext|>", "<|startoftext|> a pho to <|endoftext|>", "01223"),
        ("Ġcaf Ã© Ġâ Ģ Ļ", "caf é <E2> <80> <99>", "00111"),
        ("▁ <0xE2> <0x82> <0xAC>", "␣ <E2> <82> <AC>", "0000"),
    ):
        assert cleaned(given.split(" ")) == shown.split(" ")
        assert words_of(given.split(" ")) == [int(number) for number in words]


def test_every_byte_of_the_alphabet_comes_back():
    # The alphabet as GPT-2's encoder.py writes it, made here a second time.
    own = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    rest = [b for b in range(256) if b not in own]
    letter = {b: chr(b) for b in own} | {b: chr(256 + i) for i, b in enumerate(rest)}
    for text in ("naïve €5", "日本 語", "نص عربي", "emoji 🙂 ok"):
        pieces = ["".join(letter[b] for b in (" " + word).encode()) for word in text.split(" ")]
        assert cleaned(pieces) == text.split(" ")


def test_parts_hold_shown_labels_and_words():
    tokens = ["Ġun", "believ", "Ġyes"]
    part = as_parts(some(3, 3), tokens)[0]
    assert part.tokens == part.key_tokens == [["un", "believ", "yes"]]
    assert part.words == [([0, 0, 1], [0, 0, 1])]
    kept = as_parts(some(3, 3), tokens, clean=False, words=None)[0]
    assert kept.tokens == [tokens] and kept.words == [([], [])]
    given = as_parts(some(3, 3), list("abc"), words=[None, 4, 4])[0]
    assert given.words == [([0, 1, 1], [0, 1, 1])]
    crossed = as_parts(some(3, 4), tokens, list("wxyz"))[0]
    assert crossed.words == [([0, 0, 1], [0, 1, 2, 3])]


# ---------------------------------------------------------------- images


def test_images_of_every_kind_have_the_same_pixels():
    for image in (
        Image.new("RGB", (8, 4), (255, 0, 51)),
        Image.new("RGBA", (8, 4), (255, 0, 51, 255)),
        np.array([255, 0, 51], np.uint8) * np.ones((4, 8, 1), np.uint8),
        np.array([255, 0, 51]) * np.ones((4, 8, 1)),
        np.array([1, 0, 0.2]) * np.ones((4, 8, 1)),
        torch.tensor([1, 0, 0.2]) * torch.ones(4, 8, 1),
        torch.tensor([1, 0, 0.2])[:, None, None] * torch.ones(3, 4, 8),
        torch.tensor([1, 0, 0.2], dtype=torch.bfloat16)[:, None, None].expand(1, 3, 4, 8),
        torch.tensor([2, -2, -1.2])[:, None, None].expand(3, 4, 8),
    ):
        pixels = pixels_of(image)
        assert pixels.dtype == np.uint8 and pixels.shape == (4, 8, 3)
        assert np.abs(pixels.astype(int) - [255, 0, 51]).max() <= 1
    assert pixels_of(Image.new("RGB", (896, 100))).shape == (50, 448, 3)  # large ones are made small
    assert pixels_of(torch.rand(5, 6)).shape == (5, 6, 3)


def test_patches_are_found():
    for shape, given, expected in (
        ((197, 197), {}, (14, 14, 1, "both")),
        ((196, 196), {}, (14, 14, 0, "both")),
        ((261, 261), {}, (16, 16, 5, "both")),
        ((4, 50), {}, (7, 7, 1, "keys")),
        ((50, 4), {"on": "queries"}, (7, 7, 1, "queries")),
        ((30, 30), {"patches": (2, 5), "first": 3}, (2, 5, 3, "both")),
        ((11, 11), {"patches": (2, 5)}, (2, 5, 1, "both")),
        ((12, 12), {"first": 3, "on": "keys"}, (3, 3, 3, "keys")),
        ((25, 25), {"image": (32, 48)}, (4, 6, 1, "both")),  # of these proportions, not 5 x 5
        ((197, 197), {"image": (48, 64)}, (14, 14, 1, "both")),  # cut to a square: 12 x 16 would leave five tokens
    ):
        options = {"patches": None, "first": None, "on": None, "image": (9, 9)} | given
        picture = picture_for(torch.rand(3, *options.pop("image")), shape, **options)
        assert (picture.rows, picture.columns, picture.first, picture.on) == expected
    for tokens, image, make in ((29, (9, 9), "no grid of"), (145, (36, 64), "9 x 16 or 12 x 12")):
        with pytest.raises(ValueError, match=f"{tokens} tokens make {make} patches of this image; give patches="):
            picture_for(torch.rand(3, *image), (tokens, tokens), None, None, None)


def test_frames_of_a_video_are_taken_in_every_form_and_laid_in_rows():
    frames = (np.arange(6)[:, None, None, None] * 40 + np.zeros((6, 8, 8, 3))).astype(np.uint8)
    for video in (
        frames,
        list(frames),
        [Image.fromarray(frame) for frame in frames],
        torch.from_numpy(frames).movedim(-1, 1)[None],
        torch.from_numpy(frames).movedim(-1, 1) / 255,
        torch.from_numpy(frames).movedim(-1, 1) / 100 - 1,
    ):
        for shape, given in (((97, 97), None), ((100, 100), (4, 4))):
            picture = picture_for(video, shape, given, None, None)
            assert (picture.frames, picture.rows, picture.columns, picture.first) == ((2, 3), 8, 12, shape[0] - 96)
        shades = picture.pixels[4::8, 4::8, 0].astype(int)  # the middle of each
        wanted = np.arange(6).reshape(2, 3) * 40
        stretched = wanted * 255 / 200  # what a model is given has lost its range
        assert np.abs(shades - wanted).max() <= 1 or np.abs(shades - stretched).max() <= 1
    view = HeadView(some(1, 2, 99, 99), ["a", *["<|video_pad|>"] * 96, "what", "?"], image=list(frames))
    assert view.tokens[:2] + view.tokens[95:98] == ["a", "patch 0:0,0", "patch 5:3,2", "patch 5:3,3", "what"]
    with pytest.raises(ValueError, match="99 tokens make no grid of patches of each of 6 frames; give patches="):
        picture_for(frames, (99, 99), None, None, None)
    one, two = Image.new("RGB", (8, 8)), Image.new("RGB", (8, 4))
    with pytest.raises(ValueError, match=r"got \(4, 8, 3\), \(8, 8, 3\); of several images give one, and first="):
        picture_for([one, two], (97, 97), None, None, None)
    part = as_parts(some(1, 2, 30, 30), image=two, first=18, patches=(2, 4))[0]  # the second image of a text
    assert part.picture.first == 18 and part.tokens[0][25] == "patch 1,3"


def test_a_cut_keeps_the_image_where_its_patches_stay_together():
    weights, image = some(6, 6), torch.rand(3, 6, 6)
    options = {"image": image, "first": 1, "patches": (2, 2)}
    assert as_parts(weights, **options, keys=slice(1, 5))[0].picture.on == "keys"
    both = as_parts(weights, **options, keys=slice(1, 6), queries=slice(1, 6))[0].picture
    assert (both.on, both.first) == ("both", 0)
    assert as_parts(weights, **options, queries=[0])[0].picture.on == "keys"
    assert as_parts(weights, **options, queries=[0], keys=[1, 3])[0].picture is None
