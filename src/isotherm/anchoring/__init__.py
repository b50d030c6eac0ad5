"""From a posterior and its data to the anchored posterior: the mode, coordinates, exact sums, leverages, noise."""

from isotherm.anchoring.anchor import anchor

__all__ = ["anchor"]
