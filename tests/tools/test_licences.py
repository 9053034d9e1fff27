"""The list of allowed licences: what passes, what is refused, and how a bill of materials is read."""

import pytest
from license_expression import ExpressionError

from tools import licences


def part(name: str, *said: dict) -> dict:
    return {"name": name, "version": "1.0", "licenses": list(said)}


def named(identity: str) -> dict:
    return {"license": {"id": identity}}


@pytest.mark.parametrize(
    "expression",
    ["MIT", "MIT AND BSD-3-Clause", "GPL-3.0-only OR Apache-2.0", "Apache-2.0 WITH LLVM-exception", "(MIT) AND (ISC)"],
)
def test_what_the_list_allows(expression):
    assert licences.allows(expression)


@pytest.mark.parametrize(
    "expression",
    ["GPL-3.0-only", "AGPL-3.0-or-later", "MIT AND GPL-3.0-only", "LGPL-2.1-only OR SSPL-1.0", "CC-BY-NC-4.0"]
    + ["GPL-2.0-only WITH Classpath-exception-2.0", "Apache-2.0 WITH Classpath-exception-2.0"],
)
def test_what_it_does_not(expression):
    assert not licences.allows(expression)


def test_words_that_are_no_licence_are_not_taken_for_one():
    with pytest.raises(ExpressionError):
        licences.allows("As you like it")


def test_each_component_that_is_refused_is_told_with_what_to_do():
    free = part("free", {"expression": "MIT OR GPL-3.0-only"})
    words = part("words", {"license": {"name": "License :: OSI Approved :: BSD License"}}, named("BSD-3-Clause"))
    silent, strict = part("silent"), part("strict", named("GPL-3.0-only"))
    odd = part("odd", {"license": {"name": "Ask the author"}})
    by_hand = part("Docutils", named("BSD-3-Clause"), {"license": {"name": "Public Domain"}})
    first, second, third = licences.refused({"components": [free, words, by_hand, silent, strict, odd]})
    assert first.startswith("silent 1.0 names no licence") and "BY_HAND" in first
    assert second == "strict 1.0 is under (GPL-3.0-only), which is not among ALLOWED"
    assert third.startswith("odd 1.0 says '(Ask the author)', which is no SPDX name") and "WORDS" in third


def test_every_name_of_the_list_is_one_of_spdx_and_every_translation_is_allowed():
    known = licences.SPDX.known_symbols
    assert [name for name in licences.ALLOWED if name not in known] == []
    assert all(licences.allows(name) for name in (*licences.WORDS.values(), *licences.BY_HAND.values()))


def test_the_bill_loses_the_places_of_this_machine(monkeypatch):
    links = [{"type": "vcs", "url": "https://example.org/a"}, {"type": "distribution", "url": "file:///somewhere/a"}]
    made = {"components": [{"name": "a", "version": "1", "externalReferences": links}]}

    def run(command, **_):
        assert command[1:3] == ["-m", "cyclonedx_py"] and command[-1] == "some/python"
        return type("Done", (), {"stdout": licences.json.dumps(made)})

    monkeypatch.setattr(licences.subprocess, "run", run)
    (left,) = licences.bill_of("some/python")["components"]
    assert left["externalReferences"] == links[:1]


@pytest.mark.parametrize("licence, code", [("MIT", 0), ("GPL-3.0-only", 1)])
def test_the_command_writes_the_bill_and_fails_on_an_unknown_licence(tmp_path, monkeypatch, capsys, licence, code):
    monkeypatch.setattr(licences, "bill_of", lambda python: {"components": [part("a", named(licence))]})
    out = tmp_path / "new" / "bill.json"
    assert licences.main(["--out", str(out)]) == code
    assert licence in out.read_text(encoding="utf-8")
    assert ("see tools/licences.py" in capsys.readouterr().out) == bool(code)
