"""Counts of tokens in a row against a slow model in plain lists, and against probabilities known in closed form."""

import math

import numpy as np
import pytest

from normexp.claims.evidence.pilots.ngrams import ngram_loss


def slow_probability(train, before, token, vocabulary):
    if not before:
        return (train.count(token) + 1) / (len(train) + vocabulary)
    places = range(len(train) - len(before))
    after = [train[i + len(before)] for i in places if train[i : i + len(before)] == before]
    lower = slow_probability(train, before[1:], token, vocabulary)
    followers = len(set(after))
    return (after.count(token) + followers * lower) / (len(after) + followers) if after else lower


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_loss_equals_that_of_a_slow_model(order):
    random = np.random.default_rng(order)
    train, validation = random.integers(0, 5, 300), random.integers(0, 6, 60)  # 5 is never trained
    expected = [
        -math.log(slow_probability(list(train), list(validation[i - order + 1 : i]), validation[i], 6))
        for i in range(order - 1, len(validation))
    ]
    assert ngram_loss(train, validation, order, 6) == pytest.approx(np.mean(expected), rel=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_probabilities_of_all_tokens_add_up_to_one(order):
    train = np.random.default_rng(0).integers(0, 4, 200)
    texts = [np.array([*[1, 2][: order - 1], token]) for token in range(4)]
    assert sum(math.exp(-ngram_loss(train, text, order, 4)) for text in texts) == pytest.approx(1)


def test_pairs_know_what_follows_and_single_tokens_do_not():
    text = np.arange(3000) % 3
    assert ngram_loss(text, text, 1, 3) == pytest.approx(math.log(3), rel=1e-6)
    assert ngram_loss(text, text, 2, 3) == pytest.approx(-math.log(1 - 2 / 3 / 1001), rel=1e-2)


def test_a_text_shorter_than_what_is_counted_is_refused():
    with pytest.raises(ValueError, match="validation: has 2 tokens"):
        ngram_loss(np.arange(9), np.arange(2), 3, 9)


def test_sequences_that_no_integer_can_number_are_refused():
    text = np.arange(30) % 20
    # 127 is the largest vocabulary whose ninth power fits. Here each token follows from the one before it.
    assert 0 < ngram_loss(text, text, 9, 127) < ngram_loss(text, text, 1, 127)
    with pytest.raises(ValueError, match="ngrams=9: too many for a vocabulary of 128"):
        ngram_loss(text, text, 9, 128)
