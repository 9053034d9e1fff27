"""The exercises of lesson 17: what a split says, its terms, the lead of a key, and what an OV matrix copies."""

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw

what_a_split_tells = Choice(
    task=(
        "In head 1.2, 'token × head 0.3' carries 80 % of a key's lead. Which of the five statements follow from the "
        "split alone? Give the letters of all that do."
    ),
    answer="AC",
    options={
        "A": "the terms sum to the lead, so all other terms together carry the remaining 20 %.",
        "B": "a fifth of the lead may still be enough for the softmax. Cut the wire and look.",
        "C": "the first name is the source of the query, and the second is the source of the key.",
        "D": (
            "an attention weight comes from all scores of its row, through a softmax. A share of a lead is not a "
            "weight."
        ),
        "E": (
            "a score decides where a head looks. What the head writes comes from its values, which the score ignores."
        ),
    },
    hints=(
        "A split is arithmetic on one score. Two of the statements are arithmetic, too.",
        "Which statements are about weights, about outputs, or about what would happen without a head?",
    ),
    see="Which of the 36?",
)


def terms_solution(q_parts, k_parts):
    return q_parts @ k_parts.T / q_parts.shape[-1] ** 0.5  # (S, head_dim) @ (head_dim, S) -> (S, S)


def _terms_cases():
    tiny = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[3.0, 1.0], [-1.0, 4.0]])
    return [tiny, (draw(0, 3, 5), draw(1, 3, 5)), (draw(2, 6, 8), draw(3, 6, 8))]


terms = Exercise(
    task=(
        "Write terms(q_parts, k_parts). The arguments, (S, head_dim) each, hold what each source contributes to one "
        "query and to one key. Return the table of terms, (S, S), with a row for each source of the query and a column "
        "for each source of the key. The terms sum to the scaled score."
    ),
    answer=terms_solution,
    cases=_terms_cases,
    axes=("source of the query", "source of the key"),
    hints=(
        "Each term is a dot product of one row of q_parts with one row of k_parts.",
        "You get all of them at once with a matrix product. Which of its two factors has to be transposed?",
        "The score is q·k / √head_dim, so every term is divided by √head_dim as well.",
    ),
    wrong={
        "Not scaled": Wrong(
            Change(" / q_parts.shape[-1] ** 0.5", ""),
            "your terms sum to q·k, but the score is q·k / √head_dim.",
            "Divide by q_parts.shape[-1] ** 0.5.",
        ),
        "Rows and columns exchanged": Wrong(
            Change("q_parts @ k_parts.T", "k_parts @ q_parts.T"),
            "row i, column j holds source i of the key times source j of the query.",
            "Rows are sources of the query, so q_parts comes first.",
        ),
        "Scaled by the number of sources": Wrong(
            Change("q_parts.shape[-1] ** 0.5", "q_parts.shape[0] ** 0.5"),
            "you divide by the root of the number of sources.",
            "The scale depends on head_dim, the last axis, and not on how you cut up the sum.",
        ),
        "Divided by head_dim": Wrong(
            Change("q_parts.shape[-1] ** 0.5", "q_parts.shape[-1]"),
            "you divide by head_dim, without the root.",
            "The score is q·k / √head_dim (lesson 02).",
            also=(
                Wrong(
                    Change("q_parts.shape[-1] ** 0.5", "(q_parts.shape[-1] // 2)"),
                    "you divide by half of head_dim, not by its root.",
                    "** binds tighter than // and *, so write ** 0.5, or math.sqrt.",
                ),
            ),
        ),
        "Each source with itself only": Wrong(
            lambda q_parts, k_parts: torch.diag((q_parts * k_parts).sum(-1) / q_parts.shape[-1] ** 0.5),
            "you keep only the pairs of a source with itself.",
            "A product of two sums contains every pair: token × head is a term of its own.",
        ),
        "Summed before the product": Wrong(
            lambda q_parts, k_parts: torch.outer(q_parts.sum(-1), k_parts.sum(-1)) / q_parts.shape[-1] ** 0.5,
            "you add up the features of each part before you multiply.",
            "A dot product multiplies feature by feature, and only then adds up: q_parts @ k_parts.T.",
            also=(lambda q_parts, k_parts: torch.outer(q_parts.sum(-1), k_parts.sum(-1)),),
        ),
        "Shares, not terms": Wrong(
            lambda q_parts, k_parts: (q_parts @ k_parts.T) / (q_parts @ k_parts.T).sum(),
            "you divide each term by the sum of all terms.",
            "The task asks for the terms themselves, whose sum is the score.",
            also=(
                Wrong(
                    lambda q_parts, k_parts: (q_parts @ k_parts.T / q_parts.shape[-1] ** 0.5).softmax(-1),
                    "you take a softmax.",
                    "A softmax works on whole scores, over all keys of a query. Terms are the parts of a single score.",
                ),
            ),
        ),
    },
    see="A score is a sum",
)


def lead_solution(terms, query, key):
    return terms[..., key] - terms[..., : query + 1].mean(-1)  # (S, S, keys) -> (S, S)


def _lead_cases():
    tiny = torch.tensor([[[1.0, 2.0, 6.0, 9.0], [0.0, 1.0, 2.0, 3.0]], [[4.0, 4.0, 4.0, 4.0], [3.0, 0.0, 0.0, 7.0]]])
    return [(tiny, 2, 1), (draw(0, 3, 3, 6), 4, 2), (draw(1, 2, 2, 5), 4, 0), (draw(2, 4, 4, 7), 3, 3)]


lead = Exercise(
    task=(
        "Write lead(terms, query, key). terms, (S, S, T), holds the terms of one query with all T keys of a causal "
        "model; query and key are positions. For each pair of sources, take the key's term minus the mean over all "
        "keys that the query may see. Return these leads, (S, S)."
    ),
    answer=lead_solution,
    cases=_lead_cases,
    axes=("source of the query", "source of the key"),
    hints=(
        "The term of the key is terms[..., key]. What do you subtract from it?",
        "A causal query at position t sees the keys from 0 to t, including its own.",
        "Take the mean of terms[..., : query + 1] along the last axis.",
    ),
    wrong={
        "Hidden keys count": Wrong(
            Change("terms[..., : query + 1].mean(-1)", "terms.mean(-1)"),
            "your mean is over all keys, including those after the query.",
            "The softmax never sees those: cut at query + 1.",
        ),
        "Not itself": Wrong(
            Change(": query + 1]", ": query]"),
            "your mean leaves out the query's own position.",
            "A causal query sees itself as well: cut at query + 1.",
        ),
        "Without the key": Wrong(
            lambda terms, query, key: terms[..., key] - terms[..., [i for i in range(query + 1) if i != key]].mean(-1),
            "you leave the key itself out of the mean.",
            "The task asks for the mean over all keys that the query may see, including the chosen one.",
        ),
        "Not the plain mean": Wrong(
            Change("].mean(-1)", "].median(-1).values"),
            "you subtract the median.",
            "The task asks for the mean: .mean(-1).",
            also=(
                Wrong(
                    Change("].mean(-1)", "] @ terms[..., : query + 1].sum((0, 1)).softmax(-1)"),
                    "your mean weights each key by the attention that it gets.",
                    "The task asks for the plain mean over all keys that the query may see: .mean(-1).",
                ),
            ),
        ),
        "One mean for all": Wrong(
            Change("[..., : query + 1].mean(-1)", "[..., : query + 1].mean()"),
            "you take one mean over all pairs of sources.",
            "Each pair has its own mean: take it along the last axis only.",
        ),
    },
    see="Which of the 36?",
)


def copying_solution(W_v, W_o, E, U):
    ov = U @ W_o @ W_v @ E.T  # (letters said, letters looked at)
    return ov.argmax(0) == torch.arange(len(E))  # -> (letters,)


def _copying_cases():
    swap = torch.eye(4)[[1, 0, 2, 3]]  # 0 and 1 are written as each other, the rest as itself
    turn = torch.eye(4)[[1, 2, 0, 3]]
    cases = [(torch.eye(4), torch.eye(4), torch.eye(4), swap), (torch.eye(4), turn, torch.eye(4), turn)]
    for seed in range(3):
        E = draw(seed, 9, 6)
        cases.append((draw(seed + 10, 3, 6) / 3**seed, draw(seed + 20, 6, 3), E, draw(seed + 30, 9, 6)))
    E = draw(40, 8, 6)
    W = draw(41, 3, 6)
    return [*cases, (W, W.T.contiguous(), E, E + 0.3 * draw(42, 8, 6))]


copying = Exercise(
    task=(
        "Write copying(W_v, W_o, E, U), which finds the letters that a head copies. W_v is (head_dim, d_model), W_o is "
        "(d_model, head_dim), and the embedding E and the readout U are (letters, d_model). Return True or False for "
        "each letter, (letters,): True if the head, when it looks at this letter, raises this letter's score most."
    ),
    answer=copying_solution,
    cases=_copying_cases,
    axes=("letter",),
    hints=(
        "Follow one letter: its row of E goes through W_v, then through W_o. What does the readout say about the "
        "result?",
        "All letters at once: U @ W_o @ W_v @ E.T. Which axis is the letter that the head looks at?",
        "Columns are letters looked at, so the largest entry of column i should be in row i.",
    ),
    wrong={
        "Asked the other way around": Wrong(
            Change("ov.argmax(0)", "ov.argmax(1)"),
            "you ask, for each output letter, which letter raises it most when the head looks there.",
            "Search along the axis of output letters, so that there is one winner for each letter looked at.",
        ),
        "The embedding for the readout": Wrong(
            lambda W_v, W_o, E, U: (E @ W_o @ W_v @ E.T).argmax(0) == torch.arange(len(E)),
            "you compare what the head writes with the embedding.",
            "The model names a letter with its readout U, which need not be the embedding.",
        ),
        "The letter's own embedding as well": Wrong(
            Change("W_o @ W_v @ E.T", "(W_o @ W_v + torch.eye(len(W_o))) @ E.T"),
            "you add the embedding to what the head writes.",
            "The question is what the head alone raises: only what goes through W_v and W_o counts.",
        ),
        "Without the sign": Wrong(
            Change("ov.argmax(0)", "ov.abs().argmax(0)"),
            "you ignore the sign, so a letter that is pushed down hard counts as raised.",
            "The letter raised most has the largest entry, sign included: argmax without abs().",
        ),
        "Any raise counts": Wrong(
            lambda W_v, W_o, E, U: (U @ W_o @ W_v @ E.T).diagonal() > 0,
            "you count every letter that the head raises at all.",
            "A head copies a letter only if it raises that letter most.",
            also=(
                Wrong(
                    lambda W_v, W_o, E, U: torch.linalg.eigvals(U @ W_o @ W_v @ E.T).real > 0,
                    "you look at the signs of eigenvalues, which belong to no single letter.",
                    "Take a letter's column of U @ W_o @ W_v @ E.T: is its largest entry in the letter's own row?",
                ),
                Wrong(
                    lambda W_v, W_o, E, U: (U @ W_o @ W_v @ E.T).softmax(0).diagonal() > 0.5,
                    "you ask for a probability above one half.",
                    "The letter that is raised most may have a lower probability: compare argmax(0) with "
                    "torch.arange(len(E)).",
                ),
            ),
        ),
    },
    see="QK and OV: what a head reads, and what it writes",
)
