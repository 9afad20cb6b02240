"""Similarity measures of patches, and the curvelet and steerable-pyramid transforms that they use."""
