// WordPiece as the tokenizers package cuts it for BERT: clean, lower case, no accents, then words, then pieces of them.
//
// Which characters are dropped, blank, ideographs or punctuation is not decided here: that package was asked about each
// when the model was packed. The function holds all that it needs, for a worker is made of its text.

/**
 * Return what cuts a sentence: `cut(text)` gives the ids, from `[CLS]` to `[SEP]`, the tokens, how many more there were
 * than the model reads, and how many of all it knows.
 * @param {{words: string[], kinds: number[][], marks: Record<string, number>, longest: number}} of
 */
export function wordPiece({ words, kinds, marks, longest }) {
  const DROPPED = 1, BLANK = 2, IDEOGRAPH = 3, PUNCTUATION = 4; // as pack.py numbers them
  const LONGEST_WORD = 100; // letters
  const ids = new Map(words.map((word, id) => [word, id]));
  const kind = new Uint8Array(0x110000);
  kinds.forEach(([first, which], i) => kind.fill(which, first, kinds[i + 1]?.[0]));
  kind.fill(DROPPED, 0xd800, 0xe000); // halves of characters
  const kindOf = (character) => kind[character.codePointAt(0)];
  const isMark = new RegExp(`(${Object.keys(marks).map((mark) => mark.replace(/[[\]]/g, "\\$&")).join("|")})`);

  function plain(text) {
    let kept = "", lower = "";
    for (const c of text) {
      const which = kindOf(c);
      if (which !== DROPPED) kept += which === BLANK ? " " : which === IDEOGRAPH ? ` ${c} ` : c;
    }
    // An accent is a character of its own then. Letter by letter: in a whole word, a last sigma becomes another one.
    for (const c of kept.normalize("NFD")) if (kindOf(c) !== DROPPED) lower += c.toLowerCase();
    return lower;
  }

  function wordsOf(text) {
    const found = [""];
    for (const c of plain(text)) {
      const which = kindOf(c);
      if (which === PUNCTUATION) found.push(c, "");
      else if (which === BLANK) found.push("");
      else found[found.length - 1] += c;
    }
    return found.filter(Boolean);
  }

  /** The longest piece that the model knows, then the longest of the rest; all of a word or nothing. */
  function piecesOf(word) {
    const letters = [...word], pieces = [];
    for (let start = 0, end; start < letters.length; start = end) {
      const known = () => ids.get((start ? "##" : "") + letters.slice(start, end).join(""));
      for (end = letters.length; end > start && known() === undefined; end--);
      if (end === start || letters.length > LONGEST_WORD) return [marks["[UNK]"]];
      pieces.push(known());
    }
    return pieces;
  }

  return (text) => {
    const all = text.split(isMark).flatMap((part, i) => (i % 2 ? [marks[part]] : wordsOf(part).flatMap(piecesOf)));
    const read = [marks["[CLS]"], ...all.slice(0, longest - 2), marks["[SEP]"]];
    const known = all.filter((id) => id !== marks["[UNK]"]).length;
    return { ids: read, tokens: read.map((id) => words[id]), left: all.length + 2 - read.length, known };
  };
}
