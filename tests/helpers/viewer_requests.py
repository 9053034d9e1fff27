"""What people asked of viewers of attention heads, sixty-three requests, and the tests that show that HeadView does it.

A number names the tracker it stands in: `bv` bertviz, `CV` CircuitsVis, `av` attention-viz, others by their names.
`before` says how far the first edition of HeadView went.
"""

from typing import NamedTuple

_PYTHON = "tests/headview/test_viewer_requests.py::test_"
_PAGE = "tests/headview/test_viewer_requests_page.py::test_"
_GIVEN = "tests/headview/head_view/test_head_view_given.py::test_"
_READING = "tests/headview/head_view/test_head_view_reading.py::test_"
_SEEN = "tests/headview/head_view/test_head_view_page.py::test_"
_MODES = "tests/headview/head_view/test_head_view_modes_page.py::test_"
_OVERVIEW = "tests/headview/head_view/test_head_view_overview_page.py::test_"
_PANELS = "tests/headview/head_view/test_head_view_panels_page.py::test_"
_LARGE = "tests/headview/head_view/test_head_view_large_page.py::test_"


class Request(NamedTuple):
    """One row: what is asked, where, how far it went before, and the tests that show it."""

    asked: str
    numbers: str
    before: str  # "solved", "partly" or "not"
    tests: tuple[str, ...]


_SOLVED = (
    ("save an image", "bv13", _SEEN + "the_picture_that_is_seen_can_be_saved", _READING + "what_is_on_screen_is_saved"),
    ("vector export", "bv33", _READING + "what_is_on_screen_is_saved"),
    (
        *("HTML on a server", "bv8, bv41"),
        _PAGE + "a_page_of_others_is_no_obstacle",
        "tests/headview/test_widgets.py::test_the_page_without_a_kernel_is_one_script_that_needs_no_network",
    ),
    ("HTML in Databricks", "bv92", _PAGE + "a_page_of_others_is_no_obstacle"),
    ("512 tokens", "bv82", _SEEN + "512_tokens_get_a_pixel_each_and_follow_the_keys"),
    (
        *("a CDN that is blocked", "bv63, bv99, CV47"),
        "tests/headview/test_widgets.py::test_the_page_without_a_kernel_is_one_script_that_needs_no_network",
    ),
    (
        *("a model that answers questions; requirejs", "bv26"),
        _PYTHON + "a_model_that_answers_questions",
        _PAGE + "a_page_of_others_is_no_obstacle",
    ),
    (
        *("several views in one notebook", "bv42, bv45, bv49"),
        "tests/headview/test_contract.py::test_widgets_on_one_page_do_not_disturb_each_other",
        _SEEN + "python_and_two_views_agree_in_the_lab",
    ),
    ("RoBERTa", "bv25, bv47", _PYTHON + "a_model_is_shown_as_it_weighs"),
    (
        *("cross-attention", "bv36, bv67"),
        _PYTHON + "a_model_is_shown_as_it_weighs",
        _MODES + "two_texts_stand_above_each_other_and_both_can_be_asked",
    ),
    ("Llama", "bv128", _PYTHON + "a_model_is_shown_as_it_weighs"),
    ("ViT without tokens", "bv118", _PYTHON + "a_model_is_shown_as_it_weighs"),
    ("a padded batch", "bv101", _PYTHON + "padding_is_marked_where_the_model_masks_it"),
    ("flat maps of a fine-tuned model", "bv12", _SEEN + "the_scale_of_a_flat_head_is_a_labelled_choice"),
    (
        *("colours that confuse", "bv61"),
        _SEEN + "cells_have_the_colour_of_their_weight",
        _SEEN + "heads_are_overlaid_as_maximum_mean_and_lines",
    ),
    (
        *("Arabic", "bv77"),
        _MODES + "text_from_the_right_runs_to_the_left",
        "tests/headview/head_view/test_head_view_picture.py::test_labels_of_any_script_are_text_and_never_break_a_picture",
    ),
    ("nn.Transformer", "bv51", "tests/headview/test_capture.py::test_the_six_maps_of_a_transformer_of_torch"),
    ("choose a head from code", "nlp-with-transformers 154", _SEEN + "python_and_two_views_agree_in_the_lab"),
    ("no causal mask unless there is one", "CV74", _PYTHON + "no_mask_is_made_up"),
    ("a frame that shrinks", "CV61", _PAGE + "a_page_of_others_is_no_obstacle"),
    ("a tooltip that is hidden", "CV55", _PAGE + "tooltips_are_inside_of_the_window"),
    ("a tooltip of the overview", "av38", _PAGE + "tooltips_are_inside_of_the_window"),
    (
        *("outside of Jupyter", "inseq 140"),
        _READING + "what_is_on_screen_is_saved",
        _PAGE + "a_page_of_others_is_no_obstacle",
    ),
    (
        *("padded input", "lit 676"),
        _PYTHON + "padding_is_marked_where_the_model_masks_it",
        _GIVEN + "labels_of_a_padded_batch",
    ),
    ("an extra axis of samples", "vit-pytorch 82", _PYTHON + "an_extra_axis_of_samples"),
    (
        *("sdpa returns no weights", "transformers 31990"),
        _PYTHON + "a_default_model_hands_out_nothing_and_capture_shows_it",
    ),
)
_PARTLY = (
    ("several paragraphs, layers keep their numbers", "bv74", _PYTHON + "paragraphs_and_layers_keep_their_names"),
    ("BERT-large at its own 512 tokens", "bv2", _PYTHON + "bert_large_at_its_own_length"),
    ("empty in Colab", "bv37", _PAGE + "the_theme_is_that_of_colab_and_of_vs_code"),
    ("VS Code dark", "ARENA 3.0 292", _PAGE + "the_theme_is_that_of_colab_and_of_vs_code"),
    (
        *("BART and other encoder-decoders", "bv79"),
        _PYTHON + "a_model_is_shown_as_it_weighs",
        _GIVEN + "whole_outputs_by_their_parts",
    ),
    ("a translation by generate()", "bv72", _PYTHON + "a_translation_by_generate_has_its_three_parts"),
    ("generated tokens", "bv131", _PYTHON + "generated_text_is_one_causal_map"),
    ("from sentence A to sentence B", "bv22", _PYTHON + "from_sentence_a_to_sentence_b"),
    (
        *("all heads of all layers, or of a layer, in one", "bv111"),
        _PYTHON + "all_heads_in_one",
        _OVERVIEW + "all_heads_are_shown_as_their_mean_in_one_step",
    ),
    ("read out scores and words", "bv23", _PYTHON + "scores_and_words_are_read_out"),
    (
        *("text coloured by weight, lines of the token under the pointer", "CV98"),
        _MODES + "text_has_the_colours_of_the_chosen_query_by_click_and_key",
        _MODES + "a_token_under_the_pointer_has_its_lines_alone",
    ),
    (
        *("slow", "CV49"),
        _PYTHON + "a_view_is_displayed_without_a_drawing_by_matplotlib",
        "tests/headview/head_view/test_head_view_picture.py::test_the_picture_is_small",
    ),
    ("the mean over inputs", "av47", _PYTHON + "the_mean_over_inputs"),
    ("a part of the input", "inseq 281", _PYTHON + "a_part_of_the_input"),
    ("another object passed", "DNABERT 89", _PYTHON + "a_wrong_object_is_told_what_it_is"),
    (
        *("rollout over an image", "vision_transformer 18"),
        _PYTHON + "rollout_over_an_image",
        _PANELS + "rollout_lies_over_the_picture",
    ),
    (
        *("shapes of single steps", "groundLMM 3"),
        _PYTHON + "single_steps_are_put_together_however_the_prompt_sees_itself",
    ),
)
_NOT = (
    (
        *("image patches: thumbnails, the weights of a query over the picture", "bv73, bv94, av55"),
        _PANELS + "the_weights_of_a_query_lie_over_its_patches",
        _PANELS + "patches_are_the_labels_of_cells_with_room",
    ),
    (
        *("text to image, output to image", "TransformerLens 820, Qwen3-VL 1106 and 634, LLaVA 1080"),
        _PYTHON + "a_page_of_patches_carries_the_picture",
        _PANELS + "text_to_image_and_image_to_text",
    ),
    (
        *("the neuron view of any model", "bv130"),
        _PYTHON + "the_neuron_view_has_what_it_needs_of_any_model",
        _PANELS + "products_scores_and_softmax_equal_torch",
    ),
    ("lines across, between texts that run sideways", "bv18", _MODES + "lines_across_are_read_from_both_rows"),
    (
        *("words for subwords", "bv40, inseq 246"),
        _MODES + "pieces_of_words_stand_together",
        _READING + "words_and_hidden_tokens_change_the_selection",
    ),
    (
        *("labels without Ġ, ## and ▁", "bv40, inseq 246"),
        "tests/headview/head_view/test_head_view_labels.py::test_marks_of_tokenizers_are_taken_off_and_tell_the_words",
    ),
    (
        *("sparse layers, rows of padding below 1", "bv80"),
        _PYTHON + "blocks_of_a_sparse_model_are_shown_as_the_parts_they_are",
        "tests/headview/test_architectures.py::test_blocks_are_not_taken_for_maps",
    ),
    ("attention with a sink", "gpt-oss", _PYTHON + "a_sink_takes_the_rest"),
    (
        *("signed values: gradients, differences, scores", "bv17, streaming-llm 86"),
        _PYTHON + "gradients_differences_and_scores_keep_their_sign",
        _PAGE + "numbers_that_are_no_weights_have_scales_of_their_own",
    ),
    (
        *("weights times values", "CV58"),
        _PYTHON + "weights_times_values_of_any_sample",
        _PANELS + "weights_times_values_are_shown_in_a_page",
    ),
    (
        *("choose a sample of a batch", "av31"),
        _PYTHON + "weights_times_values_of_any_sample",
        _PAGE + "a_sample_and_other_colours_are_chosen",
    ),
    ("another colour map", "CV 100", _PAGE + "a_sample_and_other_colours_are_chosen"),
    ("entropy or sparsity of each head", "av60", _OVERVIEW + "heads_are_sorted_by_what_is_said_of_them"),
    ("heads sorted and grouped by likeness", "av52", _OVERVIEW + "groups_of_likeness_stand_apart_and_are_named"),
    (
        *("hide tokens such as [CLS], renormalised", "av7, bv84"),
        _MODES + "tokens_are_hidden_by_key_and_shown_again",
        _READING + "words_and_hidden_tokens_change_the_selection",
    ),
    ("search for a token", "av9", _MODES + "a_token_is_found_from_one_match_to_the_next"),
    ("five axes", "reformer-pytorch 27", _PYTHON + "five_axes"),
    (
        *("out of memory with all layers", "Qwen3-VL 1464"),
        _PYTHON + "layers_and_samples_that_are_not_asked_for_take_no_memory",
        "tests/headview/test_capture.py::test_no_more_than_one_layer_is_held_at_full_precision",
    ),
    (
        *("1,500 frames of sound", "whisper-timestamped 229"),
        _PYTHON + "a_long_sound_is_taken_in_full",
        _LARGE + "a_long_map_is_looked_at_down_to_single_weights",
    ),
    (
        *("a logarithmic scale, where the first token takes nearly all", "llama3 155"),
        _PYTHON + "what_is_left_by_a_sink_is_seen_on_a_logarithmic_scale",
        "tests/headview/head_view/test_head_view_numbers.py::test_maps_with_a_sink_keep_small_weights_and_row_sums_in_one_byte",
    ),
)
REQUESTS = [
    Request(asked, numbers, before, tuple(tests))
    for before, rows in (("solved", _SOLVED), ("partly", _PARTLY), ("not", _NOT))
    for asked, numbers, *tests in rows
]
