"""Score retrieval, clusters, pixel labels and confidence."""
