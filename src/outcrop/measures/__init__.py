"""Similarity measures for patches, and the curvelet and steerable-pyramid transforms that the measures use."""
