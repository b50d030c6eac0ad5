"""What a sampler evaluates: the force on a batch and its covariance, plain or anchored, and the way to an anchor."""
