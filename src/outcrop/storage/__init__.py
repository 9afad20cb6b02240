"""Files that appear whole, results under keys, results held in memory."""
