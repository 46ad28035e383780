"""A method on trial: fitted to several small problems side by side, and rolled out on them."""

import re
from collections.abc import Sequence
from functools import cache, cached_property, partial
from typing import Any, NamedTuple, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array

from ascertain.acquisition import Episodes, acquire
from ascertain.methods._registry import Method, State
from ascertain.policy import Policy
from ascertain.protocol import Protocol
from ascertain.testing._cases import Probe, TrialCase, grouped, incomplete, other, plain, probe, sharing

NAMES = ("plain", "grouped", "incomplete")
_SETUP_COSTS = (0.25, 0.75, 1.0)


class BrokenPromise(AssertionError):  # noqa: N818 - it is told apart from a method's own assertions
    """A method breaks a promise; the message says which, and how."""


class Look(NamedTuple):
    """The policies' scores of the probes, and their rollouts on the training rows."""

    scores: np.ndarray  # cases x instances x choices
    episodes: Episodes  # of NumPy arrays, cases first


class Trial:
    """A method in one state variant under one protocol; results that checks share are computed once.

    It is always fitted to three cases at once, in one program, which is compiled quickly unless `optimise`.
    """

    def __init__(
        self,
        method: Method,
        state: State,
        protocol: Protocol,
        settings: Any,
        n_actions: int,
        optimise: bool = False,
    ):
        self.method, self.state, self.protocol = method, state, protocol
        self.n_actions, self.optimise = n_actions, optimise
        self.cases: tuple[TrialCase, ...] = (plain(n_actions), grouped(n_actions), incomplete(n_actions))
        self.others: tuple[TrialCase, ...] = (other(n_actions, seed=3), other(n_actions, seed=4))
        if self.thorough:  # every method meets problems with set-ups, and without
            self.cases = tuple(map(sharing, self.cases, _SETUP_COSTS))
            self.others = tuple(map(sharing, self.others, _SETUP_COSTS))
        self.probes = tuple(probe(case, seed) for seed, case in enumerate(self.cases))
        default = method.completed(method.settings(), self.cases[0].problem, protocol)
        self.settings = default if settings is None else settings
        self.traces = 0
        self.static: Any = None  # the parts of policies that are no arrays, equal for all
        options = _options(optimise)
        self._fit = jax.jit(self._fit_all, static_argnums=0, compiler_options=options)
        self._look = jax.jit(self._look_at_all, compiler_options=options)

    def expect(self, kept: bool | np.bool_, broken: str) -> None:
        """Raise unless a promise is kept."""
        if not kept:
            self.fail(broken)

    def fail(self, broken: str, cause: Exception | None = None) -> NoReturn:
        """Raise a `BrokenPromise` that names the method and says what is wrong."""
        variant = f"{self.method.name} ({self.state}, {self.protocol.name} protocol)"
        first_line = f": {type(cause).__name__}: {str(cause).strip().partition(chr(10))[0]}" if cause else ""
        raise BrokenPromise(f"{variant}: {broken}{first_line}") from cause

    def fit(self, cases: Sequence[TrialCase], settings: Any = None) -> Any:
        """Fit to three cases side by side; the arrays of the policies, cases first."""
        try:
            return self._fit(self.settings if settings is None else settings, stack(cases))
        except BrokenPromise:
            raise
        except Exception as error:  # whatever a method may raise
            self.fail("jit(vmap(fit)) must work, but fails", error)

    def look(
        self,
        policies: Any,
        probes: Sequence[Probe] | None = None,
        cases: Sequence[TrialCase] | None = None,
    ) -> Look:
        """Score probes and roll out on the training rows, by default the cases' own."""
        situations = stack(self.probes if probes is None else probes)
        try:
            found = self._look(policies, stack(self.cases if cases is None else cases), situations)
        except BrokenPromise:
            raise
        except Exception as error:  # whatever a policy may raise
            self.fail("jit(vmap(policy)) must work, but fails", error)
        return Look(*jax.tree.map(np.asarray, found))

    @property
    def thorough(self) -> bool:
        """Whether to include the slow checks that do not depend on the protocol."""
        return self.protocol.affordability == "illegal"

    @cached_property
    def policies(self) -> Any:
        """The policies fitted to the cases."""
        return self.fit(self.cases)

    @cached_property
    def seen(self) -> Look:
        """The scores and rollouts of these policies."""
        return self.look(self.policies)

    @cached_property
    def program(self) -> tuple[str, list[bytes]]:
        """The program of fitting, as text without memory addresses, and its constants."""
        closed = self._fit.trace(self.settings, stack(self.cases)).jaxpr
        return re.sub(r"0x[0-9a-f]+", "", str(closed)), bits(closed.consts)

    def policy(self, policies: Any, place: int) -> Policy:
        """One of the policies by itself."""

        def take(leaf: Any) -> Any:
            # NumPy compiles nothing for it, but does not know random keys.
            return leaf[place] if _is_key(leaf) else np.asarray(leaf)[place]

        alone: Policy = eqx.combine(jax.tree.map(take, policies), self.static)
        return alone

    def fit_one(self, settings: Any, case: TrialCase) -> Any:
        """Fit to one case."""
        key, problem, train, valid, predictor = case
        given = {"settings": settings, "state": self.state, "protocol": self.protocol}
        return self.method.fit(key, problem, train, valid, predictor=predictor, pretrained=None, **given)

    def _fit_all(self, settings: Any, cases: TrialCase) -> Any:
        self.traces += 1
        policies = eqx.filter_vmap(partial(self.fit_one, settings))(cases)
        kind = type(policies).__name__
        self.expect(isinstance(policies, Policy), f"fit gives a {kind}, which is no ascertain.policy.Policy")
        arrays, self.static = eqx.partition(policies, eqx.is_array)
        return arrays

    def _look_at_all(self, policies: Any, cases: TrialCase, probes: Probe) -> tuple[Array, Episodes]:
        expected = (probes.x.shape[1], 1 + self.n_actions)

        def one(arrays: Any, case: TrialCase, situations: Probe) -> tuple[Array, Episodes]:
            policy: Policy = eqx.combine(arrays, self.static).at(case.problem.budget)
            scores = policy(*situations, key=jr.key(0))
            self.expect(
                scores.shape == expected,
                f"scores for {expected[0]} rows and {self.n_actions} actions must have the shape {expected}, "
                f"with stopping first, but have {scores.shape}",
            )
            rows = case.train
            return scores, acquire(jr.key(1), policy, case.problem, rows, self.protocol, self.n_actions)

        return jax.vmap(one)(policies, cases, probes)


def bits(tree: Any) -> list[bytes]:
    """The bytes of all arrays, for exact comparison."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return [np.asarray(jr.key_data(leaf) if _is_key(leaf) else leaf).tobytes() for leaf in leaves]


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def stack(trees: Sequence[Any]) -> Any:
    """Stack PyTrees of the same shapes, for `vmap`."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


@cache
def _options(optimise: bool) -> dict[str, Any]:
    """Those options to compile well, or quickly rather than well, that this compiler has."""
    level = 3 if optimise else 0
    options: dict[str, Any] = {
        "xla_backend_optimization_level": level,
        "xla_cpu_use_fusion_emitters": optimise,
    }
    return {name: value for name, value in options.items() if _is_known(name, value)}


def _is_known(option: str, value: Any) -> bool:
    try:
        jax.jit(jnp.negative, compiler_options={option: value})(0.0)
    except jax.errors.JaxRuntimeError:
        return False
    return True
