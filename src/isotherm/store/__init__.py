"""A run on disk: draws and statistics as Zarr, state as checkpoints, each complete or absent.

    run.zarr/
      zarr.json  posterior/  sample_stats/  posterior_mean/  posterior_variance/    for readers: Zarr, as xarray has it
      .isotherm/
        checkpoint-0  checkpoint-1     the state, the draws after the last whole chunk, what the run is
        lock                           who writes here

A draw is in a chunk or, until the chunk is full, in the checkpoint. Chunks are written before the checkpoint that
counts on them, with their SHA-256 in it; the metadata that readers see is written after it.
"""
