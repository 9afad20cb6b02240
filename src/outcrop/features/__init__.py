"""Features of sections and descriptors of whole patches, computed by pretrained nets or by filters."""
