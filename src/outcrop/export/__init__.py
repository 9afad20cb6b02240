"""Labels out into the user's world: SEG-Y, Zarr, training sets."""
