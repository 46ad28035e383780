"""Programs whose places are taken by the next model as soon as one has stopped, on a toy that is trained."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array, Float, PRNGKeyArray

from ascertain._core.training import Batch, Schedule, Training
from ascertain.problem import Problem, Table
from ascertain.recipe import _programs as programs
from ascertain.recipe._programs import Begun, Program, Trainee, TrainingProgram, program_of, shapes_of
from ascertain.recipe._stages import ROUNDS, Inputs, Stage
from ascertain.registry import NoSettings, SharedModel

N_ROWS, N_FEATURES = 40, 3
SCHEDULE = Schedule(batch_size=16, max_rounds=400, patience=5, min_delta=0.01)
MODELS = 7
WIDTH = 3


def _training(
    key: PRNGKeyArray, problem: Problem, train: Table, valid: Table, settings: NoSettings
) -> Training[Float[Array, " features"]]:
    """Logistic regression, by noisy gradients."""
    del problem, settings

    def loss(model: Array, key: PRNGKeyArray, batch: Batch) -> Array:
        noisy = train.x[batch.rows] + 0.1 * jr.normal(key, (16, N_FEATURES))
        return jnp.sum(batch.weight * jnp.logaddexp(0, -(2.0 * train.y[batch.rows] - 1) * (noisy @ model)))

    def validate(model: Array, key: PRNGKeyArray) -> Array:
        del key
        return jnp.mean(jnp.logaddexp(0, -(2.0 * valid.y - 1) * (valid.x @ model)))

    return Training(key, jnp.zeros(N_FEATURES), loss, validate, N_ROWS, SCHEDULE, learning_rate=0.003)


def _fit(*arguments: Any) -> Any:
    return _training(*arguments).run()


STAGE = Stage("share", settings=NoSettings(), shared=SharedModel("toy", "toy", _fit, NoSettings, _training))


def _table(rng: np.random.Generator, noise: float) -> Table:
    x = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
    y = (x[:, 0] + noise * rng.normal(size=N_ROWS) > 0).astype(np.int32)
    table: Table = jax.tree.map(np.asarray, Table(x, y))
    return table


@pytest.fixture(scope="module")
def replicates() -> list[Inputs]:
    """The less noise, the longer they are trained."""
    problem = jax.tree.map(np.asarray, Problem(np.eye(N_FEATURES), np.ones(N_FEATURES), 2, 2))
    rng, found = np.random.default_rng(0), []
    for noise in np.linspace(0, 3, MODELS):
        key = np.asarray(jr.key_data(jr.key(int(rng.integers(1000)))))
        found.append(Inputs(key, problem, _table(rng, noise), _table(rng, noise)))
    return found


def _compiled(program: Program) -> Any:
    program.lower()
    program.compile()
    return program


@pytest.fixture(scope="module", params=["one after the other", "vmap"])
def both(request: pytest.FixtureRequest, replicates: list[Inputs]) -> Any:
    """The program that waits for the slowest, and the one that does not; as on cores and as on a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "vmap":
            patch.setattr(programs, "replicated", jax.vmap)
        for each in (programs._batched, programs._advancing, programs._untrained):
            each.cache_clear()
        like = shapes_of(replicates[0])
        yield _compiled(Program(STAGE, like, WIDTH)), _compiled(program_of(STAGE, like, WIDTH))
    for each in (programs._batched, programs._advancing, programs._untrained):
        each.cache_clear()


def test_models_are_the_same_bit_by_bit_whoever_was_beside_them(both: Any, replicates: list[Inputs]) -> None:
    plain, training = both
    assert isinstance(training, TrainingProgram)
    alone = [plain.run([each]).results[0] for each in replicates]
    assert len({each.tobytes() for each in alone}) == MODELS
    for order in (range(MODELS), reversed(range(MODELS))):
        waiting, coming, found = list(order), list[int](), dict[int, Any]()
        places = training.places()
        while waiting or places.taken:
            joining, waiting = waiting[: places.free], waiting[places.free :]
            coming += joining
            places.fill([Trainee(replicates[each]) for each in joining])
            found |= {coming[number]: done for number, done in places.advance().items()}
        for each, expected in enumerate(alone):
            np.testing.assert_array_equal(found[each].results[0], expected)
        assert all(1 <= done.jobs <= WIDTH for done in found.values())


def test_a_place_is_free_when_its_model_has_stopped(both: Any, replicates: list[Inputs]) -> None:
    """Seven models in three places: the rounds of the busiest place, not the longest model of each chunk."""
    _, training = both
    rounds = []
    for each in replicates:
        places = training.places()
        places.fill([Trainee(each)])
        calls = 1
        while not places.advance():
            calls += 1
        rounds.append(calls)
    assert max(rounds) > 2 * min(rounds)  # so there is something to gain
    waiting, places, calls = list(replicates), training.places(), 0
    while waiting or places.taken:
        joining, waiting = waiting[: places.free], waiting[places.free :]
        places.fill([Trainee(each) for each in joining])
        places.advance()
        calls += 1
    # Graham's bound of scheduling without idle places; each call is so many rounds.
    assert calls <= sum(rounds) / WIDTH + (1 - 1 / WIDTH) * max(rounds)
    assert max(rounds) * ROUNDS <= SCHEDULE.max_rounds + ROUNDS


def test_models_that_are_interrupted_at_every_turn_are_the_same(both: Any, replicates: list[Inputs]) -> None:
    """In other places each time, beside others, and with states that came from the host."""
    plain, training = both
    waiting, found, longest = list(enumerate(map(Trainee, replicates))), dict[int, Any](), 0
    while waiting:
        coming, waiting = waiting[-WIDTH:], waiting[:-WIDTH]
        places = training.places()
        places.fill([trainee for _, trainee in coming])
        for number, done in places.advance().items():
            found[coming[number][0]] = done
        for number, done in places.interrupt().items():
            which, trainee = coming[number]
            longest = max(longest, 1 + (trainee.begun is not None))
            begun = Begun(done.results[0], done.seconds, done.jobs)
            waiting.insert(0, (which, trainee._replace(begun=begun)))
        assert places.taken == 0
    assert longest == 2
    for each, inputs in enumerate(replicates):
        np.testing.assert_array_equal(found[each].results[0], plain.run([inputs]).results[0])
        assert 1 <= found[each].jobs <= WIDTH


def test_a_state_of_another_training_is_not_taken_up(both: Any, replicates: list[Inputs]) -> None:
    """Such as of a model with other sizes."""
    plain, training = both
    places, found = training.places(), dict[int, Any]()
    places.fill([Trainee(replicates[0], Begun([np.ones(5, np.float32)], 1.0, 1.0))])
    while places.taken:
        found |= places.advance()
    np.testing.assert_array_equal(found[0].results[0], plain.run(replicates[:1]).results[0])


def test_run_trains_a_chunk_to_its_end(both: Any, replicates: list[Inputs]) -> None:
    plain, training = both
    found = training.run(replicates[:2])
    for one, other in zip(plain.run(replicates[:2]).results, found.results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert found.seconds > 0
