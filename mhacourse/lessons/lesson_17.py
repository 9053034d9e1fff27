"""The exercises of lesson 17: what a split says, its terms, the lead of a key, and what an OV matrix copies."""

import torch

from mhacourse.exercise import Change, Choice, Exercise, Wrong
from mhacourse.inputs import draw

what_a_split_tells = Choice(
    task=(
        "In head 1.2, 'token × head 0.3' carries 80 % of a key's lead. Which of the five sentences follow from the "
        "split alone? All of them, as letters."
    ),
    answer="AC",
    options={
        "A": "the terms sum to the lead, so all others together carry the remaining 20 %.",
        "B": "a fifth of the lead may be enough for the softmax. Cut the wire and look.",
        "C": "the first name is the source of the query, the second that of the key.",
        "D": "an attention weight comes from all scores of its row, through a softmax. A share of a lead is no weight.",
        "E": "a score decides where a head looks. What it writes comes from its values, which the score never saw.",
    },
    hints=(
        "A split is arithmetic of one score. Two of the sentences are arithmetic, too.",
        "Which sentences speak of weights, of outputs, or of what would happen without a head?",
    ),
    see="Which of the 36?",
)


def terms_solution(q_parts, k_parts):
    return q_parts @ k_parts.T / q_parts.shape[-1] ** 0.5  # (S, head_dim) @ (head_dim, S) -> (S, S)


def _terms_in_a_loop(q_parts, k_parts):
    S, head_dim = q_parts.shape
    terms = torch.zeros(S, S)
    for i in range(S):
        for j in range(S):
            terms[i, j] = (q_parts[i] * k_parts[j]).sum() / head_dim**0.5
    return terms


def _terms_cases():
    tiny = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[3.0, 1.0], [-1.0, 4.0]])
    return [tiny, (draw(0, 3, 5), draw(1, 3, 5)), (draw(2, 6, 8), draw(3, 6, 8))]


terms = Exercise(
    task=(
        "Write terms(q_parts, k_parts): from what each source brings into one query and into one key, (S, head_dim) "
        "each, the table of terms, (S, S): rows are sources of the query. They sum to the scaled score."
    ),
    answer=terms_solution,
    plain=(terms_solution, _terms_in_a_loop),
    cases=_terms_cases,
    axes=("source of the query", "source of the key"),
    hints=(
        "Each term is a dot product: one row of q_parts with one row of k_parts.",
        "All of them at once: a matrix product. Which of the two has to be transposed?",
        "The score is q·k / √head_dim, so every term is divided by it as well.",
    ),
    wrong={
        "Not scaled": Wrong(
            Change(" / q_parts.shape[-1] ** 0.5", ""),
            "the terms sum to q·k, and the score is that divided by √head_dim.",
            "Divide by q_parts.shape[-1] ** 0.5.",
        ),
        "Rows and columns exchanged": Wrong(
            Change("q_parts @ k_parts.T", "k_parts @ q_parts.T"),
            "row i, column j holds source i of the key times source j of the query.",
            "Rows are sources of the query: q_parts comes first.",
        ),
        "Scaled by the number of sources": Wrong(
            Change("q_parts.shape[-1] ** 0.5", "q_parts.shape[0] ** 0.5"),
            "you divide by the root of the number of sources.",
            "The scale belongs to head_dim, the last axis; how a sum is cut up does not change it.",
        ),
        "Divided by head_dim": Wrong(
            Change("q_parts.shape[-1] ** 0.5", "q_parts.shape[-1]"),
            "you divide by head_dim, without the root.",
            "The score is q·k / √head_dim (lesson 02).",
        ),
        "Each source with itself only": Wrong(
            lambda q_parts, k_parts: torch.diag((q_parts * k_parts).sum(-1) / q_parts.shape[-1] ** 0.5),
            "only pairs of a source with itself are there.",
            "A product of two sums has every pair: token × head is a term of its own.",
            also=(
                Wrong(
                    lambda q_parts, k_parts: (q_parts * k_parts).sum(-1) / q_parts.shape[-1] ** 0.5,
                    "only pairs of a source with itself are there, as a list.",
                    "A product of two sums has every pair: S times S of them.",
                ),
            ),
        ),
        "Number by number": Wrong(
            lambda q_parts, k_parts: q_parts * k_parts / q_parts.shape[-1] ** 0.5,
            "feature j of source i of the query is multiplied with that of source i of the key, and nothing is added.",
            "A term is a dot product, a sum over the features, for each pair of sources: q_parts @ k_parts.T.",
            also=(lambda q_parts, k_parts: q_parts * k_parts,),
        ),
        "Features in the place of sources": Wrong(
            lambda q_parts, k_parts: q_parts.T @ k_parts / q_parts.shape[-1] ** 0.5,
            "the sum goes over the sources, so the table is (head_dim, head_dim).",
            "Rows and columns are sources, and features are summed over: q_parts @ k_parts.T.",
            also=(lambda q_parts, k_parts: q_parts.T @ k_parts,),
        ),
        "Shares, not terms": Wrong(
            lambda q_parts, k_parts: (q_parts @ k_parts.T) / (q_parts @ k_parts.T).sum(),
            "each term is divided by their sum.",
            "Asked are the terms themselves, whose sum is the score.",
            also=(
                Wrong(
                    lambda q_parts, k_parts: (q_parts @ k_parts.T / q_parts.shape[-1] ** 0.5).softmax(-1),
                    "a softmax was taken.",
                    "It belongs to all keys of a query, and to whole scores. Terms are the parts of a single score.",
                ),
            ),
        ),
    },
    see="A score is a sum",
)


def lead_solution(terms, query, key):
    return terms[..., key] - terms[..., : query + 1].mean(-1)  # (S, S, keys) -> (S, S)


def _lead_in_a_loop(terms, query, key):
    mean = torch.zeros(terms.shape[:2])
    for other in range(query + 1):
        mean = mean + terms[:, :, other]
    return terms[:, :, key] - mean / (query + 1)


def _lead_cases():
    tiny = torch.tensor([[[1.0, 2.0, 6.0, 9.0], [0.0, 1.0, 2.0, 3.0]], [[4.0, 4.0, 4.0, 4.0], [3.0, 0.0, 0.0, 7.0]]])
    return [(tiny, 2, 1), (draw(0, 3, 3, 6), 4, 2), (draw(1, 2, 2, 5), 4, 0), (draw(2, 4, 4, 7), 3, 3)]


lead = Exercise(
    task=(
        "Write lead(terms, query, key): terms (S, S, T) of one query with all T keys of a causal model. Return for "
        "each pair of sources, (S, S), how far the key's term lies above the mean over all keys that the query may see."
    ),
    answer=lead_solution,
    plain=(lead_solution, _lead_in_a_loop),
    cases=_lead_cases,
    axes=("source of the query", "source of the key"),
    hints=(
        "The term of the key is terms[..., key]. What is taken away from it?",
        "A causal query at place t sees the keys from 0 to t, itself included.",
        "The mean is over terms[..., : query + 1], along the last axis.",
    ),
    wrong={
        "Hidden keys count": Wrong(
            Change("terms[..., : query + 1].mean(-1)", "terms.mean(-1)"),
            "the mean runs over all keys, those to come included.",
            "The softmax never sees them: cut at query + 1.",
            also=(
                Wrong(
                    lambda terms, query, key: terms[..., key] - terms[..., : query + 1].sum(-1) / terms.shape[-1],
                    "the terms of the keys that are seen are added up, and divided by the number of all keys.",
                    "There are query + 1 keys that are seen: divide by their number.",
                ),
            ),
        ),
        "Not itself": Wrong(
            Change(": query + 1]", ": query]"),
            "the query's own place is missing in the mean.",
            "A causal query sees itself as well: up to query + 1.",
        ),
        "Without the key": Wrong(
            lambda terms, query, key: terms[..., key] - terms[..., [i for i in range(query + 1) if i != key]].mean(-1),
            "the key itself is left out of the mean.",
            "Asked is the mean over all keys that the query may see, the chosen one among them.",
        ),
        "The best other key": Wrong(
            lambda terms, query, key: terms[..., key] - terms[..., [i for i in range(query + 1) if i != key]].amax(-1),
            "the largest of the other terms is taken away.",
            "Asked is the lead over the mean of all keys that the query may see.",
            also=(Change("terms[..., : query + 1].mean(-1)", "terms[..., : query + 1].amax(-1)"),),
        ),
        "One mean for all": Wrong(
            Change("[..., : query + 1].mean(-1)", "[..., : query + 1].mean()"),
            "one mean is taken over all pairs of sources.",
            "Each pair has a mean of its own: along the last axis only.",
        ),
    },
    see="Which of the 36?",
)


def copying_solution(W_v, W_o, E, U):
    ov = U @ W_o @ W_v @ E.T  # (letters said, letters looked at)
    return ov.argmax(0) == torch.arange(len(E))  # -> (letters,)


def _copying_in_a_loop(W_v, W_o, E, U):
    copied = []
    for letter in range(len(E)):
        written = W_o @ (W_v @ E[letter])  # (d_model,)
        said = U @ written  # (letters,)
        copied.append(said.argmax().item() == letter)
    return torch.tensor(copied)


def _share(letters):
    return (letters == torch.arange(len(letters))).float().mean()


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
        "Write copying(W_v, W_o, E, U): which letters does a head copy? True where the letter that it raises most is "
        "the one it looks at, (letters,). W_v (head_dim, d_model), W_o (d_model, head_dim), embedding E and readout U "
        "(letters, d_model)."
    ),
    answer=copying_solution,
    plain=(copying_solution, _copying_in_a_loop),
    cases=_copying_cases,
    axes=("letter",),
    hints=(
        "Follow one letter: its row of E, through W_v, then W_o. What does the readout say of that?",
        "All letters at once: U @ W_o @ W_v @ E.T. Which axis is the letter that was looked at?",
        "Columns are letters looked at: the largest entry of column i should be in row i.",
    ),
    wrong={
        "Asked the other way round": Wrong(
            Change("ov.argmax(0)", "ov.argmax(1)"),
            "this asks for each letter said which letter raises it most.",
            "Columns are the letters that are looked at: take the largest entry of each column, argmax(0).",
        ),
        "The embedding for the readout": Wrong(
            lambda W_v, W_o, E, U: (E @ W_o @ W_v @ E.T).argmax(0) == torch.arange(len(E)),
            "what is written is compared with the embedding.",
            "The model names a letter with its readout U; it need not be the embedding.",
        ),
        "W_o before W_v": Wrong(
            lambda W_v, W_o, E, U: (E @ W_o @ W_v @ U.T).argmax(1) == torch.arange(len(E)),
            "with letters as rows, E @ W_o @ W_v sends them through W_o first.",
            "A row goes through a matrix by its transpose: E @ W_v.T @ W_o.T @ U.T. Or letters as columns: "
            "U @ W_o @ W_v @ E.T.",
        ),
        "What stood there already": Wrong(
            lambda W_v, W_o, E, U: (U @ (torch.eye(len(W_o)) + W_o @ W_v) @ E.T).argmax(0) == torch.arange(len(E)),
            "the letter's own embedding is added to what the head writes.",
            "The stream names the letter without the head. Asked is what the head writes: U @ W_o @ W_v @ E.T.",
        ),
        "Numbers of letters": Wrong(
            lambda W_v, W_o, E, U: (U @ W_o @ W_v @ E.T).argmax(0),
            "for each letter you return which one is raised most.",
            "Asked is whether that is the letter itself: compare with torch.arange(len(E)).",
            also=(
                Wrong(
                    lambda W_v, W_o, E, U: (U @ W_o @ W_v @ E.T).argmax(1),
                    "for each letter said you return which one raises it most.",
                    "Columns are the letters that are looked at, argmax(0); then compare with torch.arange(len(E)).",
                ),
            ),
        ),
        "Without the sign": Wrong(
            Change("ov.argmax(0)", "ov.abs().argmax(0)"),
            "the largest size counts, so that a letter pushed down hard counts as raised.",
            "Raised most is the largest with its sign: argmax without abs().",
        ),
        "Any raise counts": Wrong(
            lambda W_v, W_o, E, U: (U @ W_o @ W_v @ E.T).diagonal() > 0,
            "every letter counts that is raised at all.",
            "A head copies a letter if it raises this one most.",
            also=(
                Wrong(
                    lambda W_v, W_o, E, U: (U @ W_o @ W_v @ E.T).diagonal() > (U @ W_o @ W_v @ E.T).mean(0),
                    "every letter counts that is raised more than the mean of all.",
                    "A head copies a letter if it raises this one most.",
                ),
                Wrong(
                    lambda W_v, W_o, E, U: torch.linalg.eigvals(U @ W_o @ W_v @ E.T).real > 0,
                    "you ask for the signs of eigenvalues, which belong to no single letter.",
                    "Take a letter's column of U @ W_o @ W_v @ E.T: is its largest entry in the letter's own row?",
                ),
            ),
        ),
        "One number": Wrong(
            lambda *given: copying_solution(*given).float().mean(),
            "this is the share of the letters that are copied.",
            "Asked is which ones: True or False for each letter.",
            also=(
                Wrong(
                    lambda W_v, W_o, E, U: _share((U @ W_o @ W_v @ E.T).argmax(1)),
                    "you return a share; and argmax(1) asks for each letter said which letter raises it most.",
                    "Asked is True or False for each letter looked at, a column: compare argmax(0) with torch.arange.",
                ),
                Wrong(
                    lambda W_v, W_o, E, U: _share((E @ W_o @ W_v @ U.T).argmax(1)),
                    "you return a share; and with letters as rows, E @ W_o @ W_v sends them through W_o first.",
                    "Asked is True or False for each letter. Columns go through W_v first: U @ W_o @ W_v @ E.T.",
                ),
                *(
                    Wrong(
                        lambda W_v, W_o, E, U, score=score, whole=whole: score(
                            torch.linalg.eigvals(U @ W_o @ W_v @ E.T if whole else W_o @ W_v)
                        ),
                        "you return one number for the whole head, made of eigenvalues.",
                        "That is another measure of copying. Asked is True or False for each letter: is it the one "
                        "that is raised most where it is looked at?",
                    )
                    for score in (lambda v: v.real.sum() / v.abs().sum(), lambda v: (v.real > 0).float().mean())
                    for whole in (True, False)
                ),
            ),
        ),
    },
    see="QK and OV: what a head reads, and what it writes",
)
