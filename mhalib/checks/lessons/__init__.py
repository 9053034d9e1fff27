"""The exercises, one module for each lesson.

`mhalib.checks.check` finds the modules and the exercises by their names: `split_heads` of `lesson_03` is
`check.split_heads` of lesson 03. They stand in the order of the lesson's *Try it*.
"""
