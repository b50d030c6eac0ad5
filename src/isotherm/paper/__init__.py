"""The paper: its data sets and experiments, `isotherm demo` and `isotherm reproduce`."""
