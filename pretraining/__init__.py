"""How the encoder that ships with Outcrop was made: synthetic sections, a small U-Net, its training.

Imports NumPy and torch alone, and nothing of the package or of `outcrop synth`, whose volumes stay a test.
"""
