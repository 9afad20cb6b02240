"""Export of labels as SEG-Y, Zarr, NumPy arrays, pictures and training sets."""
