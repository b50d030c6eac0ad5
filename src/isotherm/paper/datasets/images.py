"""Two classes of a data set of images, as logistic regression takes them."""

import numpy as np

from isotherm.paper.datasets.source import Arrays


def two_classes(data: Arrays, positive: int, negative: int) -> Arrays:
    """Select the images with either label: x float64, pixels/255; y float32, +1 for `positive`, −1 for `negative`."""
    keep = np.isin(data["y"], (positive, negative))
    return {"x": data["x"][keep] / 255.0, "y": np.where(data["y"][keep] == positive, 1, -1).astype(np.float32)}
