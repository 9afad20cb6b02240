"""Similarity of patches: two frames and the measures made of them."""
