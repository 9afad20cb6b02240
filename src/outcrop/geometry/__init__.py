"""Geology from sections and labels: fault sticks, fault surfaces, geobodies and horizons."""
