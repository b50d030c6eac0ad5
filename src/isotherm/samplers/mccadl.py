"""mCCAdL: the modified covariance-controlled adaptive Langevin thermostat (Wei & Shang).

    dθ = M⁻¹p dt
    dp = F̃(θ) dt − (h/2)β S(θ) M⁻¹p dt − ξp dt + √(2A/β) M^(1/2) dW
    dξ = (p·M⁻¹p − d/β)/μ dt

leaves exp(−βU(θ)) N(p; 0, M/β) N(ξ; A, 1/(βμ)) invariant: the second term takes out the heat that the force's noise
of covariance S puts in. Each step is a symmetric splitting with one force evaluation; S comes from one batch and acts
through exp(−(h²/2)βS)p, never formed (Algorithm 1 of the paper). The paper leaves open which batch that is. By default
it is that of the force, with whose noise S is then correlated: in a direction in which the noise is skewed, its large
kicks meet the large friction, which biases the mean, the more so where rows are drawn with unequal probabilities that
do not follow the gradients (tests/statistical/test_probabilities.py). A batch of its own has far less bias.
"""

from dataclasses import dataclass, field
from typing import Any

from jax.tree_util import register_dataclass

from isotherm.data.batches import ExtraBatch
from isotherm.dynamics import flows
from isotherm.dynamics.matrix_exponential import ACTIONS
from isotherm.lib import arguments
from isotherm.lib.types import Number, RandomKey
from isotherm.samplers.base import STATIC, Phase, State, Thermostat
from isotherm.targets.noisy import Noisy

LETTERS = "ABCDO"


@register_dataclass
@dataclass(frozen=True)
class MCCAdL(Thermostat):
    scheme: str = field(metadata=STATIC)
    expm: str = field(metadata=STATIC)
    rank: int | None = field(metadata=STATIC)
    covariance_batch: str = field(metadata=STATIC)

    def extra_batches(self, phase: Phase, parameters: int, batch_size: int) -> dict[str, ExtraBatch]:
        """Return the batch from which S comes, unless that is the one of the force."""
        own = phase == "step" and self.covariance_batch == "own"
        return {"covariance": ExtraBatch(batch_size)} if own else {}

    def step(self, key: RandomKey, state: State, noisy: Noisy) -> State:
        h = self.step_size_at(state.step, state.position.dtype)
        moves = flows.moves(self.scheme, LETTERS)

        def noise_friction(s: State, t: Number) -> State:
            """p ← exp(−tΓ)p with Γ = (h/2)βS."""
            evaluated = noisy if self.covariance_batch == "force" else noisy.on("covariance", s.position)
            covariance = evaluated.covariance.whitened(self.inverse_root_mass(state.position))
            p, error = ACTIONS[self.expm](covariance, t * h / (2 * self.temperature), s.momentum, self.rank)
            return s._replace(momentum=p, expm_error=error)

        letters = self.letters(key, state.position, noisy.force, moves) | {"C": noise_friction}
        return flows.run(moves, letters, state, h).stepped(h)


def mccadl(
    step_size: Any,
    friction: float = 1.0,
    *,
    temperature: float = 1.0,
    thermal_mass: float | str | None = "auto",
    mass: Any = None,
    scheme: str = "BAODCDOAB",
    expm: str = "lanczos",
    rank: int | str | None = "auto",
    covariance_batch: str = "force",
) -> MCCAdL:
    """Build the paper's sampler, mCCAdL.

    Args:
        step_size: h, a number, a function of the step index, or "auto", which `isotherm.largest_step` then finds.
        friction: A, the effective friction; ξ starts there and has it as its mean.
        temperature, thermal_mass: 1/β, and μ; "auto" is the number of parameters.
        mass: M, diagonal: a number, a vector or a pytree shaped like the parameters; 1 unless given.
        scheme: the splitting, a word of the letters A, B, C, D, O.
        expm: how exp(−(h²/2)βS)p is computed: "lanczos", "taylor" or "dense".
        rank: the size of the Lanczos space; "auto" is the least that keeps the error of C to a tenth of what the
            sampling error of S does to it, at most 8.
        covariance_batch: which examples S comes from: "force", those of the step's force, or "own", others, evaluated
            where S acts. The paper leaves it open; "own" has far less bias in the mean, above all where rows are drawn
            with unequal `probabilities`, and costs a second evaluation.
    """
    flows.moves(scheme, LETTERS)
    return MCCAdL(
        **Thermostat.checked_thermostat(step_size, temperature, mass, friction, thermal_mass),
        scheme=scheme,
        expm=arguments.choice("expm", expm, ACTIONS),
        rank=arguments.unless_auto("rank", rank, arguments.integer, 1),
        covariance_batch=arguments.choice("covariance_batch", covariance_batch, ("force", "own")),
    )
