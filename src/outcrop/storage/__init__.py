"""Storage: files written atomically, results under keys, results cached in memory."""
