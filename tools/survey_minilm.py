"""Write what MiniLM's 72 heads do over 2,002 sentences, for readers of lesson 11 whose machine has no weights.

    python -m tools.survey_minilm

Needs the weights (`make weights`), and some 30 seconds. The name of the file holds the beginning of their hash.
"""

from headview import survey
from mhalib.pretrained import STORED_SURVEY, load_minilm, many_sentences
from mhalib.pretrained.minilm import MINILM

RUNNING = "The painter painted the old bridge while the old baker baked bread"


def main() -> None:
    weights = MINILM.sha256["model.safetensors"][:12]
    if weights not in STORED_SURVEY.name:
        raise ValueError(f"{STORED_SURVEY.name} is of other weights than {weights}; name it so in sentences.py")
    found = survey(load_minilm(), [RUNNING, RUNNING + ".", *many_sentences(2000)])
    found.save(STORED_SURVEY, texts=False)
    print(f"{STORED_SURVEY.name}: {STORED_SURVEY.stat().st_size:,} bytes, {found}")


if __name__ == "__main__":
    main()
