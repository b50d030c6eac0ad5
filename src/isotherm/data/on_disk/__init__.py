"""Arrays on disk, one a column of the data: NumPy's memmaps, Zarr's and HDF5's, read by rows, a bounded part at a time.

Nothing here maps a file into memory: a mapped file that becomes shorter, or a disk that fails, kills the process with
a signal, where a read raises an error that can be reported. Only a separate process maps files (mapped_reader.py).
"""
