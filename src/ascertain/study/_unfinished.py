"""Trainings that are interrupted when the time of a run is over: the next run goes on with them."""

from collections.abc import Callable

from ascertain.errors import StoreError
from ascertain.recipe._jobs import Job
from ascertain.recipe._programs import Begun, Done, Trainee
from ascertain.recipe._stages import Inputs
from ascertain.study._records import agrees, details_of
from ascertain.study._runners import Runner
from ascertain.study._store import Store


def save_interrupted(store: Store, job: Job, done: Done, runner: Runner, width: int) -> None:
    """Save the state of a job's training."""
    store.save_state(job, done.results[0], details_of(done, runner, width))


def trainee_of(
    store: Store, job: Job, inputs: Inputs, runner: Runner, width: int, warn: Callable[[str], object]
) -> Trainee:
    """The model that a job trains; from where it was interrupted, if numbers are still rounded alike."""
    try:
        found = store.load_state(job)
    except StoreError:
        warn(f"{store.state_path(job)} is damaged; its training begins anew")
        found = None
    if found is None:
        return Trainee(inputs)
    leaves, details = found
    if details["width"] != width or not agrees(details, runner):
        return Trainee(inputs)
    return Trainee(inputs, Begun(leaves, details["chunk_seconds"], details["chunk_jobs"]))
