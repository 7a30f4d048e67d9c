"""Chance is a pure function of its question, and the arrays draw the same bits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal.stack.chance as chance_module
from shoal.simulation.draws import below_array, bits_array, uniform_array
from shoal.stack import Chance
from shoal.stack.chance import mix, purpose_word, python_below, python_bits

words = st.integers(0, 2**64 - 1)
seeds = st.integers(-(2**63), 2**64)
purposes = st.text(max_size=12)


def test_known_values() -> None:
    """splitmix64 and FNV-1a as published: the draws must never change under anybody's runs."""
    assert mix(0) == 0xE220A8397B1DCDAF
    assert mix(0x9E3779B97F4A7C15) == 0x6E789E6AA1B965F4
    assert purpose_word("") == 0xCBF29CE484222325
    assert purpose_word("a") == 0xAF63DC4C8601EC8C
    assert Chance(1, "fill").bits(2, 3) == 0xD010283F33A1B14C
    assert Chance(1, "fill").below(1000, 5) == 163
    assert Chance(1, "fill").sample(range(10), 4, 7) == [5, 2, 6, 0]
    assert Chance(-1, "").uniform() == 0.32275600978956587


@settings(max_examples=30)
@given(seed=seeds, purpose=purposes, counters=st.lists(words, max_size=4))
def test_the_same_question_gets_the_same_answer(
    seed: int, purpose: str, counters: list[int]
) -> None:
    assert Chance(seed, purpose).bits(*counters) == Chance(seed, purpose).bits(*counters)


@given(seed=seeds, purpose=purposes, counters=st.lists(words, min_size=1, max_size=3))
def test_arrays_draw_bit_for_bit_the_same(seed: int, purpose: str, counters: list[int]) -> None:
    chance = Chance(seed, purpose)
    arrays = [np.array([counter], np.uint64) for counter in counters]
    assert bits_array(seed, purpose, *arrays).tolist() == [chance.bits(*counters)]
    assert uniform_array(seed, purpose, *arrays).tolist() == [chance.uniform(*counters)]
    for limit in (1, 2, 750, 2**32 - 1):
        below = below_array(bits_array(seed, purpose, *arrays), limit)
        assert below.tolist() == [chance.below(limit, *counters)]


def test_arrays_broadcast() -> None:
    node = np.arange(7, dtype=np.uint64)
    each = np.arange(3, dtype=np.uint64)[:, None]
    drawn = bits_array(5, "both", node, each)
    chance = Chance(5, "both")
    assert drawn.tolist() == [[chance.bits(n, e) for n in range(7)] for e in range(3)]


@given(seed=seeds, limit=st.integers(1, 10**9), counter=words)
def test_below_stays_below(seed: int, limit: int, counter: int) -> None:
    assert 0 <= Chance(seed, "below").below(limit, counter) < limit
    assert 0.0 <= Chance(seed, "below").uniform(counter) < 1.0


@given(items=st.lists(st.integers(), unique=True, max_size=20), data=st.data())
def test_a_sample_is_distinct_and_of_the_items(items: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(items)))
    drawn = Chance(data.draw(seeds), "sample").sample(items, count)
    assert len(drawn) == count == len(set(drawn))
    assert set(drawn) <= set(items)


def test_more_than_there_is_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="4 distinct items cannot be drawn from 3"):
        Chance(0, "sample").sample([1, 2, 3], 4)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_draws_look_uniform(seed: int) -> None:
    """64 cells of 4,000 draws each: chi-square with 63 degrees of freedom, far in neither tail."""
    cells = np.bincount(
        (uniform_array(seed, "uniform", np.arange(64 * 4000, dtype=np.uint64)) * 64).astype(int),
        minlength=64,
    )
    chi_square = float(((cells - 4000) ** 2 / 4000).sum())
    assert 20 < chi_square < 140


def test_neighbouring_questions_are_unrelated() -> None:
    """Flipping one bit of any part of a question flips about half of the answer's bits."""
    base = Chance(7, "flip").bits(1, 2)
    others = [
        Chance(6, "flip").bits(1, 2),
        Chance(7, "flop").bits(1, 2),
        Chance(7, "flip").bits(0, 2),
        Chance(7, "flip").bits(1, 3),
        Chance(7, "flip").bits(2, 1),
        Chance(7, "flip").bits(1, 2, 0),
        Chance(7, "flip").bits(1),
    ]
    for other in others:
        assert 12 <= (base ^ other).bit_count() <= 52


def test_shuffles_are_fair() -> None:
    """Each of the 24 orders of four items comes about equally often."""
    chance = Chance(3, "order")
    seen: dict[tuple[int, ...], int] = {}
    for k in range(4800):
        order = tuple(chance.sample(range(4), 4, k))
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    assert all(140 < times < 260 for times in seen.values())


def test_draws_do_not_depend_on_the_hash_seed() -> None:
    code = "from shoal.stack import Chance; print(Chance(1, 'x').sample('abcdefgh', 5, 9))"
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1", "4242")
    }
    assert len(answers) == 1


def test_it_is_not_compiled() -> None:
    """Compiled, a product that Ctrl-C cuts short would abort the process."""
    assert Path(chance_module.__file__).suffix == ".py"


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """``chance.c``, built as an installation does."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip("no C compiler")
    source = Path(__file__).parents[2] / "src" / "shoal" / "stack" / "chance.c"
    built = tmp_path_factory.mktemp("chance") / f"_chance{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run([compiler, "-shared", "-fPIC", include, source, "-o", built], check=True)
    spec = spec_from_file_location("_chance", built)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@given(key=words, counters=st.lists(st.integers(-(2**70), 2**70), max_size=6))
def test_c_draws_the_same_bits(in_c: ModuleType, key: int, counters: list[int]) -> None:
    assert in_c.bits(key, *counters) == python_bits(key, *counters)
    for limit in (0, 1, 3, 750, 2**63, 2**64 - 1):
        assert in_c.below(limit, key, *counters) == python_below(limit, key, *counters)


def test_c_refuses_what_is_no_number(in_c: ModuleType) -> None:
    for wrong in ((), (1, "x"), (None,)):
        with pytest.raises(TypeError):
            in_c.bits(*wrong)
        with pytest.raises(TypeError):
            in_c.below(1, *wrong)
