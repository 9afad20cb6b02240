"""The web page of ``outcrop app``: place exemplars, judge retrieved patches, correct labels, and export results."""
