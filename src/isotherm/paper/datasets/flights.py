"""flights: 3,000,000 flights inside the US, January to June 2001, and whether each was late.

A row is a flight: when it left, how far it went, from which of 229 airports to which of 228, and its delay. Airlines
report them to the US Bureau of Transportation Statistics; this sample is the one that the npm package vega-datasets
ships. Some airports have 100,000 flights, others a handful. The checksum is that of version 3.2.1 of the package; no
other published one was found to compare it with. Reading the file takes pyarrow: `pip install 'isotherm[tables]'`.
"""

from typing import NamedTuple

import numpy as np

from isotherm.lib.optional import extra
from isotherm.paper.datasets import lookup, verify
from isotherm.paper.datasets.lookup import DataDir
from isotherm.paper.datasets.source import SOURCES, Arrays, DatasetError
from isotherm.tables.columns import Levels, from_arrow

LATE = 15  # minutes

SOURCE = SOURCES["flights"]
NAME = SOURCE.files[0].name


class Flights(NamedTuple):
    """A row a flight, and the codes of the airports: `origin` and `destination` are indices into these."""

    data: Arrays
    origins: tuple[str, ...]
    destinations: tuple[str, ...]


def load(data_dir: DataDir | None = None) -> Flights:
    """Load all flights, in the order of their dates; there is no test set. The columns, each (N,):

    - `late`: float32, 1 if the delay is more than 15 minutes, else 0;
    - `log_distance`: float32, the logarithm of the miles, standardised: mean 0 and variance 1 over all rows;
    - `hour`: int32 0 … 23, and `weekday`: int32, 0 (Monday) … 6 (Sunday), both of the departure;
    - `origin`, `destination`: int32, counted in the alphabetical order of the airports' codes.
    """
    with extra("tables", f"reading {NAME}"):
        import pyarrow
        from pyarrow import parquet

    content = verify.read(SOURCE, lookup.locate(SOURCE, data_dir))[NAME]
    try:
        columns = ["date", "delay", "distance", "origin", "destination"]
        table = parquet.read_table(pyarrow.BufferReader(content), columns=columns)
        date, delay, distance = (table[name].to_numpy() for name in columns[:3])
        origin, destination = (from_arrow(name, table[name], NAME, "text", ()) for name in columns[3:])
        hours = date.astype("datetime64[h]").astype(np.int64)
    except (KeyError, TypeError, ValueError) as fault:  # pyarrow's own errors are among these
        raise DatasetError(f"{NAME} is not a table of date, delay, distance, origin and destination: {fault}") from None
    assert isinstance(origin, Levels)
    assert isinstance(destination, Levels)
    log_distance = np.log(distance.astype(np.float64))
    data: Arrays = {
        "late": (delay > LATE).astype(np.float32),
        "log_distance": ((log_distance - log_distance.mean()) / log_distance.std()).astype(np.float32),
        "hour": (hours % 24).astype(np.int32),
        "weekday": ((hours // 24 + 3) % 7).astype(np.int32),  # hour 0, the first of January 1970, was a Thursday's
        "origin": origin.values,
        "destination": destination.values,
    }
    return Flights(data, origin.names, destination.names)
