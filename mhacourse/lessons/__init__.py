"""The exercises and the predictions, one module of each kind for each lesson.

`mhacourse.check` finds the modules and the exercises by their names: `split_heads` of `lesson_03` is
`check.split_heads` of lesson 03. They stand in the order of the lesson's *Try it*.
`which_split` of `predictions_03` is `predict.which_split`, and they stand in the order in which the lesson asks.
"""
