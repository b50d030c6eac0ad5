"""Default priors of estimators and of tables, as standard deviations, for columns in standard units."""

COEFFICIENT_SCALE = 2.5  # of generalised linear models: wide, and yet no probability is 0 or 1 (Gelman et al. 2008)
INTERCEPT_SCALE = 10.0  # hardly any prior: the data say it
REGRESSOR_SCALE = 1.0  # weights and biases of a network for a number in standard units
CLASSIFIER_SCALE = 2.0  # of a network for classes, whose borders may be sharp
CLASSIFIER_OUTPUT = 8.0  # by which such a network's output is multiplied: about how large log-odds may be
MACHINE_SCALE = 3.0  # of a Boltzmann machine: about what the paper's experiments have
