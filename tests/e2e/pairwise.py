"""A small set of arrangements in which every two values of any two factors meet."""

import itertools


def _pairs(row):
    """{((factor, value), (factor, value)), ...} of one arrangement."""
    return set(itertools.combinations(row.items(), 2))


def product(factors):
    """Every arrangement of {factor: [values]}, in the order that is written."""
    for values in itertools.product(*factors.values()):
        yield dict(zip(factors, values))


def cover(factors):
    """Arrangements, each the one that brings the most pairs not met yet, the first
    of equals: always the same ones, and about as few as there can be."""
    rows = [(row, _pairs(row)) for row in product(factors)]
    left = set().union(*(pairs for _, pairs in rows))
    chosen = []
    while left:
        row, pairs = max(rows, key=lambda entry: len(entry[1] & left))
        left -= pairs
        chosen.append(row)
    return chosen
