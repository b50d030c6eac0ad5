"""Where rows come from: batches and their probabilities, in memory, on disk, over devices and processes."""
