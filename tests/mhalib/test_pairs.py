"""The pairs of sentences by which sentence models are judged."""

from mhalib.pretrained import SENTENCE_PAIRS


def test_the_pairs_cover_every_grade_and_no_sentence_stands_beside_itself():
    grades = [grade for *_, grade in SENTENCE_PAIRS]
    assert {grade: grades.count(grade) for grade in set(grades)} == {grade: 6 for grade in range(6)}
    assert all(first != second for first, second, _ in SENTENCE_PAIRS)
    assert len({frozenset(pair[:2]) for pair in SENTENCE_PAIRS}) == len(SENTENCE_PAIRS)
