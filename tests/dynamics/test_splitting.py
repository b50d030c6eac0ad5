"""Words become moves; words that cannot be a step are refused in words."""

import pytest

from isotherm.dynamics import splitting


@pytest.mark.parametrize(
    ("word", "letters", "expected"),
    [
        ("BAODCDOAB", "ABCDO", "B1 A.5 O.5 D.5 C1 D.5 O.5 A.5"),
        ("BADODAB", "ABDO", "B1 A.5 D.5 O1 D.5 A.5"),
        ("BACODOCAB", "ABCDO", "B1 A.5 C.5 O.5 D1 O.5 C.5 A.5"),
        ("ADOBODA", "ABDO", "B1 O.5 D.5 A1 D.5 O.5"),
        ("AOBDBOA", "ABDO", "B.5 D1 B.5 O.5 A1 O.5"),
        ("OABD", "ABDO", "B1 D1 O1 A1"),
    ],
)
def test_moves(word, letters, expected):
    wanted = tuple((move[0], float(move[1:])) for move in expected.split())
    assert splitting.moves(word, letters) == wanted


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("BAXODAB", "scheme 'BAXODAB' has the unknown letter 'X'; this sampler knows ABDO"),
        ("BAOAB", "scheme 'BAOAB' lacks the letter 'D'; this sampler needs each of ABDO"),
        ("ABADOB", "scheme 'ABADOB' needs two force evaluations a step: the position moves between its B's"),
        ("", "scheme '' lacks the letter 'A'"),
    ],
)
def test_refused(word, message):
    with pytest.raises(ValueError, match=message):
        splitting.moves(word, "ABDO")


def test_not_a_word():
    with pytest.raises(TypeError, match="scheme must be a word such as 'BAODCDOAB', got 3"):
        splitting.moves(3, "ABDO")


def test_run_gives_each_letter_its_share():
    moves = splitting.moves("BADODAB", "ABDO")
    flows = {letter: (lambda s, t, letter=letter: [*s, (letter, t)]) for letter in "ABDO"}
    assert splitting.run(moves, flows, [], 2.0) == [(letter, 2.0 * share) for letter, share in moves]
