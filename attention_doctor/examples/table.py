"""Which experiments show which finding, the most telling first.

A code that is not here has no example: it is said in words.
"""

from itertools import islice

from attention_doctor.examples.averaging import (
    crowd,
    cut,
    equal,
    equal_if_seen,
    exchanged,
    grows,
    grows_if_seen,
    turned,
)
from attention_doctor.examples.calling import again, crash, empty_rows, finite, remembers, shape, writes
from attention_doctor.examples.comparing import Bodies, another_mask, leak, samples, still
from attention_doctor.examples.inside import dead, rank
from attention_doctor.examples.wording import Wording

MOST_TRIED = 250  # of one experiment

EXPERIMENTS = {
    "shape": (shape,),
    "crash": (crash,),
    "not-finite": (finite,),
    "not-deterministic": (again, remembers),
    "mutates-input": (writes,),
    "mixes-samples": (samples,),
    "no-mixing": (still,),
    "mixes-tokens": (leak("own"), equal, leak("causal", "first", "short"), turned, leak("none"), still),
    "mixes-tokens-on-merge": (leak("own"), equal, leak("causal", "first", "short"), turned, leak("none"), still),
    "softmax-axis": (grows_if_seen, leak("causal", "first", "own", "short", "none"), crowd),
    "no-softmax": (grows, cut, equal),
    "future-leak": (leak("none", saying=": the layer is causal"), leak("causal"), equal_if_seen),
    "mask-ignored": (leak("own", "causal", "first", "short"),),
    "mask-leaks": (leak("own", "causal", "first", "short"), cut),
    "mask-inverted": (leak("causal", "own", "short", "first", saying="; it seems to be read the other way round"),),
    "mask-transposed": (leak("causal", saying="; rows are queries, columns are keys"),),
    "mask-order": (another_mask,),
    "nan-on-empty-row": (empty_rows,),
    "dead-parameters": (dead,),
    "heads-unused": (rank,),
    "key-unused": (still, exchanged),
}


def bodies(code: str, evidence: str, say: Wording) -> Bodies:
    """Yield what to try for a finding."""
    for experiment in EXPERIMENTS.get(code, ()):
        yield from islice(experiment(say, evidence), MOST_TRIED)
