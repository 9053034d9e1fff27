"""A module that is imported when a test first asks it for something, not while the tests are collected."""

import importlib


class Later:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str):
        return getattr(importlib.import_module(self._name), name)


transformers = Later("transformers")  # takes 8 s
