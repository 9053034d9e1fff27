"""Experiments of a few seconds: tasks, small models, training, and what many runs say together.

Names are handed on when they are first asked for, so that a task needs neither joblib nor a plot. Upwards: `tasks`,
`grammar`, `sentence` and `statistics` know none of the others; then `models`, `positions`, `training`, `sweeps`,
`comparison`, `night`; `curves` draws runs, `translation` is an experiment of its own. `mhalib.heads` looks at heads.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "comparison": ["Comparison", "compare_arms", "count_flops"],
        "curves": ["LiveCurve", "plot_runs"],
        "grammar": ["Sentence", "parse"],
        "models": ["CausalModel", "LookupModel", "count_parameters", "seeded"],
        "positions": ["PlacedModel", "positions_from_mask", "rotary_permutation", "rotate", "slopes"],
        "sentence": ["sentence_features"],
        "statistics": ["Interval", "interval", "spearman"],
        "sweeps": ["SweepError", "sweep"],
        "tasks": ["Lookup", "Repeats"],
        "training": ["DivergedError", "Fit", "Task", "evaluate", "fit", "fit_together"],
        "translation": ["Translation", "TranslationModel", "alignments", "pack", "sentences_right"],
    },
)
