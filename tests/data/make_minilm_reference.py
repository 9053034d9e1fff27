"""Write minilm_reference.json: what the reference implementation says about a few sentences.

    python tests/data/make_minilm_reference.py

The reference is `BertModel` of transformers with its plain ("eager") attention, the mean of its last layer over the
tokens that count, divided by its length: what the authors of all-MiniLM-L6-v2 say to do. None of our layers is in it;
from mhalib come only the place of the verified files and the number of tokens. Needs the weights (`make weights`).
"""

import json
from pathlib import Path

import torch
import transformers

from mhalib.pretrained.minilm import MINILM, find

SENTENCES = [
    "A man is playing a guitar.",
    "Someone is making music on a guitar.",
    "The stock market fell sharply today.",
    "Shares lost much of their value this afternoon.",
    "The cat sat on the mat, and the dog sat beside the cat.",
    "Café déjà vu: naïve façade, 3.14 €?",
    "",
    "one sentence that never stops and " * 60,  # longer than the model reads
]
LOOKED_AT = "She saw the cat."

torch.set_num_threads(1)
folder = str(find())
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()


def embed(sentences: list[str]) -> torch.Tensor:
    cut = tokenizer(sentences, padding=True, truncation=True, max_length=256, return_tensors="pt")
    counts = cut["attention_mask"][..., None].float()  # (B, T, 1)
    mean = (model(**cut).last_hidden_state * counts).sum(1) / counts.sum(1)
    return mean / mean.norm(dim=-1, keepdim=True)


with torch.no_grad():
    embeddings = embed(SENTENCES)
    ids = tokenizer(LOOKED_AT, return_tensors="pt")
    attention = torch.cat(model(**ids, output_attentions=True).attentions)  # (layers, num_heads, T, T)

facts = {
    "origin": f"{MINILM.repository} at {MINILM.revision}, by BertModel of transformers {transformers.__version__}, "
    f"eager attention, torch {torch.__version__}, rounded to 5 digits; made by tests/data/make_minilm_reference.py",
    "sentences": SENTENCES,
    "embeddings": embeddings.tolist(),
    "looked_at": LOOKED_AT,
    "tokens": tokenizer.convert_ids_to_tokens(ids["input_ids"][0]),
    "attention": attention.flatten(2).flatten(0, 1).tolist(),  # a line per head, layer by layer
}


def line(value: object) -> str:
    """Return JSON with a line for each row of numbers."""
    if isinstance(value, list) and isinstance(value[0], list):
        rows = [json.dumps([round(number, 5) for number in row], separators=(",", ":")) for row in value]
        return "[\n" + ",\n".join(rows) + "\n]"
    return json.dumps(value, ensure_ascii=False)


text = "{\n" + ",\n".join(f"{json.dumps(name)}: {line(value)}" for name, value in facts.items()) + "\n}\n"
Path(__file__).with_name("minilm_reference.json").write_text(text, encoding="utf-8")
