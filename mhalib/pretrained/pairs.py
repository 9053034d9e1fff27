"""Pairs of sentences with a grade for how alike they mean, to judge a sentence model by.

The sentences and grades are our own, written before any model saw them. A few are hard on purpose: the same words
with another meaning, or the same meaning in other words.
"""

# 5 the same, 4 the same but for a detail, 3 the same event, something that matters differs, 2 the same subject,
# 1 the same field, 0 nothing in common.
SENTENCE_PAIRS: tuple[tuple[str, str, float], ...] = (
    ("A boy is kicking a ball.", "A young boy kicks a ball.", 5),
    ("The train was late because of the snow.", "Snow made the train late.", 5),
    ("She bought a used car last week.", "Last week she purchased a second-hand car.", 5),
    ("The doctor told him to stop smoking.", "He was advised by his physician to give up cigarettes.", 5),
    ("Nobody answered the phone.", "The phone rang, but no one picked it up.", 5),
    ("How can I learn to play the piano?", "What is the best way to learn the piano?", 5),
    ("A woman is cutting an onion.", "A woman is cutting a red onion in the kitchen.", 4),
    ("The museum is closed on Mondays.", "The museum does not open on Mondays and holidays.", 4),
    ("Two dogs run along the beach.", "Two brown dogs are running on the sand by the sea.", 4),
    ("The company hired fifty engineers this year.", "About fifty new engineers joined the company.", 4),
    ("My sister teaches mathematics at a school in Lyon.", "My sister is a maths teacher.", 4),
    ("The storm destroyed the roof of the house.", "A storm badly damaged the house.", 4),
    ("A man is playing the guitar.", "A woman is playing the guitar.", 3),
    ("The bank raised its interest rates.", "The bank lowered its interest rates.", 3),
    ("The children are swimming in the lake.", "The children are sitting beside the lake.", 3),
    ("He drove from Paris to Berlin in one day.", "He took the night train from Paris to Berlin.", 3),
    ("The team won the final by one goal.", "The team lost the final after extra time.", 3),
    ("The soup needs more salt.", "There is too much salt in the soup.", 3),
    ("A cat is sleeping on the sofa.", "A cat is chasing a mouse.", 2),
    ("Bread is made from flour, water and yeast.", "The bakery opens at six in the morning.", 2),
    ("She plays the violin in an orchestra.", "The violin was made in Italy in 1720.", 2),
    ("The plane landed safely in Madrid.", "Flights to Madrid are cheaper in winter.", 2),
    ("Our new printer does not work.", "How much ink does this printer need?", 2),
    ("The river flooded the old town.", "We went for a walk along the river.", 2),
    ("A horse is eating grass.", "A pig is lying in the mud.", 1),
    ("The patient has a fever.", "The hospital hired three nurses.", 1),
    ("He planted tomatoes in the garden.", "The farmer sold his tractor.", 1),
    ("The court found him guilty.", "She studies law at the university.", 1),
    ("The price of oil fell again.", "He keeps his savings at the bank.", 1),
    ("A girl is painting a picture.", "The concert was sold out.", 1),
    ("We sat on the bank of the river.", "The bank raised its interest rates.", 0),
    ("A man is slicing bread.", "The satellite reached its orbit.", 0),
    ("Where can I buy a bicycle?", "The novel has four hundred pages.", 0),
    ("The baby is finally asleep.", "Inflation slowed down in March.", 0),
    ("They painted the kitchen yellow.", "The lawyer asked for more time.", 0),
    ("It will rain tomorrow.", "This password is too short.", 0),
)
