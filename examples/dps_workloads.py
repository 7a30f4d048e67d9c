"""Which workload gives the first row of Table 1 of the DPS paper? Readings of it, worked out.

    python examples/dps_workloads.py

Then the last row as it is simulated, over many draws of the values that are popular.

10,000 subscriptions, 1,000 events. A filter has a predicate on a number (equality, or a range of a
tenth of the domain) and one on a text (equality, or another operator: a letter of the word must be
contained, or anything matches), half of each kind. Filters favour few values (zipf), events none.
Contacted are the members of groups that match, and the leaders of those that do not but whose
predecessor does.
"""

from collections.abc import Callable

import numpy as np

from shoal.simulation.contents import Draws, dictionary_word, dps, shuffled, word
from shoal.simulation.contents import zipf as ranks_of

SUBSCRIPTIONS, EVENTS, WORDS, DRAWS = 10_000, 1_000, 500, 100
PRINTED = (2.37, 13.56, 11.19)
Spelling = Callable[[int], str] | None
"""The word of a number; None if other texts match anything."""


def zipf(chance: np.random.Generator, size: int, exponent: float, count: int) -> np.ndarray:
    """Values by popularity; which value is popular is drawn too."""
    weights = np.arange(1, size + 1, dtype=float) ** -exponent
    ranks = chance.choice(size, count, p=weights / weights.sum())
    return chance.permutation(size)[ranks]


def reading(
    domain: int, exponent: float, spell: Spelling, selective: bool, seed: int
) -> tuple[float, float, float]:
    """Matching, contacted and false positives in percent of the nodes."""
    chance = np.random.default_rng(seed)
    count = SUBSCRIPTIONS
    equal = chance.random((2, count)) < 0.5
    value = zipf(chance, domain, exponent, count)
    text = zipf(chance, WORDS, exponent, count)
    half = domain // 20
    middle = np.clip(value, half, domain - half)  # a range is moved inside the domain
    low, high = middle - half, middle + half - 1
    spellings = [(spell or word)(number) for number in range(WORDS)]
    draws = zip(text, chance.random(count), strict=True)
    letter = np.array([ord(spellings[n][int(u * len(spellings[n]))]) - ord("a") for n, u in draws])
    spelt = np.array([[chr(ord("a") + n) in one for n in range(26)] for one in spellings])

    event_number = chance.integers(domain, size=EVENTS)
    event_text = chance.integers(WORDS, size=EVENTS)
    share_number = np.where(equal[0], 1 / domain, 0.1)
    share_letter = np.ones(count) if spell is None else spelt.mean(axis=0)[letter]
    share_text = np.where(equal[1], 1 / WORDS, share_letter)
    by_number = share_number <= share_text if selective else chance.random(count) < 0.5

    matching = contacted = wanted = 0.0
    ranges, members = np.unique(low[by_number & ~equal[0]], return_counts=True)
    numbers, held = np.unique(value[by_number & equal[0]], return_counts=True)
    # An equality is below a range that includes it, the lowest of those; else below the root.
    above = np.array([next((r for r in ranges if r <= n < r + 2 * half), -domain) for n in numbers])
    words, spoken = np.unique(text[~by_number & equal[1]], return_counts=True)
    used, readers = np.unique(letter[~by_number & ~equal[1]], return_counts=True)
    below = np.array(
        [next((u for u in used if spell is not None and spelt[w, u]), -1) for w in words]
    )
    for n, w in zip(event_number, event_text, strict=True):
        hit = np.where(equal[0], value == n, (low <= n) & (n <= high))
        hit &= np.where(equal[1], text == w, True if spell is None else spelt[w, letter])
        matching += hit.sum()
        inside = (ranges <= n) & (n < ranges + 2 * half)
        contacted += members[inside].sum() + (~inside).sum()
        same = numbers == n
        visited = (above == -domain) | ((above <= n) & (n < above + 2 * half))
        contacted += held[same].sum() + (visited & ~same).sum()
        spelled = np.ones(len(used), bool) if spell is None else spelt[w, used]
        contacted += readers[spelled].sum() + (~spelled).sum()
        same = words == w
        visited = (below == -1) | (True if spell is None else spelt[w, below])
        contacted += spoken[same].sum() + (visited & ~same).sum()
    wanted = 100 * matching / EVENTS / count
    seen = 100 * contacted / EVENTS / count
    return wanted, seen, seen - wanted


def alerts(seed: int, domain: int = 500, exponent: float = 1.5) -> tuple[float, float, float]:
    """The same three shares in workload 3, with the simulator's filters, over all events."""
    draw, values = Draws(seed, "filter", 0, SUBSCRIPTIONS), np.arange(domain)[:, None]
    joined = np.random.default_rng(seed).integers(3, size=SUBSCRIPTIONS)
    popular = np.arange(1, domain + 1, dtype=float) ** -exponent
    matching, contacted = np.ones(SUBSCRIPTIONS), 0.0
    for turn, attribute in enumerate(dps(3, seed=seed).attributes):
        name, length = attribute.name, round((attribute.range or 0.0) * domain)
        ranks = ranks_of(draw(f"{name} value"), domain, exponent)
        value = shuffled(domain, seed, f"filters {name}")[ranks]
        low = np.clip(value - length // 2, 0, domain - length)
        equal = draw(f"{name} equality") < attribute.equality
        low, high = np.where(equal, value, low), np.where(equal, value, low + length - 1)
        share = np.zeros(domain)
        share[shuffled(domain, seed, f"events {name}")] = popular / popular.sum()
        below = np.concatenate([[0.0], np.cumsum(share)])
        matching *= below[high + 1] - below[low]
        mine = joined == turn
        groups, members = np.unique([low[mine], high[mine]], axis=1, return_counts=True)
        hit = (groups[0] <= values) & (values <= groups[1])
        ranges = groups[0][groups[0] < groups[1]]
        visited = np.ones_like(hit)  # leaders of groups whose predecessor matches
        for place, one in enumerate(groups[0]):
            above = ranges[(ranges <= one) & (one < ranges + length)]
            if one == groups[1][place] and len(above):
                visited[:, place] = ((above[0] <= values) & (values < above[0] + length))[:, 0]
        contacted += float(share @ (hit @ members + (visited & ~hit).sum(axis=1)))
    wanted, seen = 100 * float(matching.mean()), 100 * contacted / SUBSCRIPTIONS
    return wanted, seen, seen - wanted


def main() -> None:
    """Print a table, means of three seeds; then workload 3, means of a hundred."""
    print("| reading | matching % | contacted % | false positives % |\n|---|---|---|---|")
    print("| as printed | " + " | ".join(f"{one:.2f}" for one in PRINTED) + " |")
    texts: tuple[tuple[str, Spelling], ...] = (
        ("a letter", word),
        ("a letter, as common as in English", dictionary_word),
        ("anything", None),
    )
    for domain, exponent in ((500, 1.5), (1000, 1.0)):
        for words, spell in texts:
            for selective in (False, True):
                rows = [reading(domain, exponent, spell, selective, seed) for seed in range(3)]
                joined = "most selective" if selective else "any"
                name = f"{domain} values, zipf {exponent}, other texts: {words}, joined: {joined}"
                means = np.mean(rows, axis=0)
                print(f"| {name} | " + " | ".join(f"{one:.2f}" for one in means) + " |", flush=True)
    print("\n| workload 3 | matching % | contacted % | false positives % |\n|---|---|---|---|")
    print("| as printed | 0.42 | 17.15 | 16.73 |")
    rows = [alerts(seed) for seed in range(DRAWS)]
    half = 1.98 * np.std(rows, axis=0, ddof=1) / DRAWS**0.5  # of the 95% interval
    means = zip(np.mean(rows, axis=0), half, strict=True)
    joined = " | ".join(f"{mean:.2f} ± {one:.2f}" for mean, one in means)
    print(f"| mean of {DRAWS} draws | {joined} |")


if __name__ == "__main__":
    main()
