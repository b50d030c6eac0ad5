"""Where minibatches come from: data in memory, rows picked at random inside the compiled loop."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from isotherm import arguments
from isotherm.types import Batch, RandomKey

LARGEST = 2**20  # a batch that is drawn with replacement may be larger than the data, within reason


@dataclass(frozen=True)
class Batches:
    """Batches of `size` out of `population` rows, with or without replacement within a batch."""

    population: int
    size: int
    replace: bool = True

    def __post_init__(self) -> None:
        size = arguments.integer("batch_size", self.size, 1, max(self.population, LARGEST))
        object.__setattr__(self, "size", size)  # an int even where NumPy's was given
        if not self.replace and self.size > self.population:
            raise ValueError(
                f"batch_size must be at most the number of examples, {self.population}, when drawing without "
                f"replacement, got {self.size}; lower it or set replace=True"
            )

    def take(self, key: RandomKey, data: Batch) -> Batch:
        """A batch of `data`; all of it, in order, when the batch is everything and nothing is replaced."""
        if not self.replace and self.size == self.population:
            return data
        rows = self.rows(key)
        return jax.tree.map(lambda column: column[rows], data)

    def rows(self, key: RandomKey) -> Int[Array, " n"]:
        if self.replace:
            return jax.random.randint(key, (self.size,), 0, self.population)
        if 4 * self.size > self.population:
            return jax.random.permutation(key, self.population)[: self.size]
        return self._distinct(key)

    def _distinct(self, key: RandomKey) -> Int[Array, " n"]:
        """The first n distinct of a sequence of independent draws: a uniform subset, at a cost without N."""

        def repeated(rows: Array) -> Array:
            return jnp.concatenate([jnp.zeros((1,), bool), rows[1:] == rows[:-1]])

        def redraw(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            key, rows = carry
            key, fresh = jax.random.split(key)
            new = jax.random.randint(fresh, (self.size,), 0, self.population)
            return key, jnp.sort(jnp.where(repeated(rows), new, rows))

        key, first = jax.random.split(key)
        rows = jnp.sort(jax.random.randint(first, (self.size,), 0, self.population))
        return jax.lax.while_loop(lambda carry: repeated(carry[1]).any(), redraw, (key, rows))[1]
