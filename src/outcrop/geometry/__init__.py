"""Geology from sections and labels: fault sticks and surfaces, bodies and horizons."""
