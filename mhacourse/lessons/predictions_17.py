"""The predictions of lesson 17: which term carries a lead, which wire matters, who shares it, and a real head."""

from mhacourse.prediction import Choose

carries_the_lead = Choose(
    about="which kind of term carries most of the lead",
    right="token × a head of layer 0",
    options={
        "token × token": (
            "Query and key both hold a letter, and the task is about letters. But the chosen key holds a different "
            "letter from the query. The letter that fits is the one *before* the key, and the key's own token does not "
            "know that letter: a head of layer 0 brought it."
        ),
        "position × position": (
            "Positions carry the first look, one place to the left. But the distance to the twin is drawn anew in "
            "every sequence, so no pair of positions can tell where the twin is. The answer is token × a head of layer "
            "0."
        ),
        "token × a head of layer 0": (
            "The query holds its own letter, and the key holds the letter before it. Only a head of layer 0 can have "
            "brought that letter."
        ),
        "a head of layer 0 × a head of layer 0": (
            "With two layers, heads read other heads, so that is nearly right. But the query needs no help, since it "
            "knows its own letter. Only the key has something to learn from layer 0."
        ),
    },
)

which_wire = Choose(
    about="which cut, besides the one out of the keys, makes the model forget how to repeat",
    right="neither of them",
    options={
        "the one out of the queries": (
            "The query asks for its own letter, which its token already holds, so it never needed layer 0."
        ),
        "the one out of the values": (
            "A head writes what it finds in its values, so they seem to matter most. But here it has to write the "
            "key's own letter, which comes from the key's token."
        ),
        "both": (
            "Layer 0 wrote the letter into the stream, and all three matrices read the stream. But each reads only the "
            "directions that it picks, and two of them pick other directions."
        ),
        "neither of them": (
            "Only the keys read the letter that came before: cutting it there leaves about one answer in ten right, "
            "and the other two cuts change next to nothing."
        ),
    },
)

one_of_two = Choose(
    about="how many answers stay right without the crowned head's wire, where two heads share the work",
    right="over half",
    options={
        "about one in ten": (
            "That is so where one head does all the work. Here another head brings the same letter, and the score is a "
            "sum, so over half of the answers stay right."
        ),
        "about a third": (
            "Half of the lead is gone, so a lot should go wrong. But the softmax only asks which key is ahead, and "
            "half a lead is still a lead: over half of the answers stay right."
        ),
        "over half": "The other head brings the same letter. The lead shrinks, but the right key usually stays ahead.",
        "all of them": (
            "If either of the two could do it alone, nothing would be lost. But their parts add up, and with only one "
            "of them some leads get too small."
        ),
    },
)

real_share = Choose(
    about='how much of the lead of "animal" over "street" the largest of 1,849 terms carries',
    right="about a seventh",
    options={
        "over half": (
            "In the small models one kind of term does nearly all the work. Here the largest term carries 15 %: it "
            "takes many terms, of both signs, to make the difference."
        ),
        "about a third": (
            "A head that found the animal so clearly should have one main reason. But the largest term carries 15 %, "
            "and hundreds of small ones carry the rest."
        ),
        "about a seventh": (
            "The largest term carries 15 %, and the others are smaller still: the lead is what is left over when many "
            "terms cancel."
        ),
        "under 1 %": (
            "With 1,849 terms, each could be tiny. They are not all alike, though: the largest carries 15 %."
        ),
    },
)
