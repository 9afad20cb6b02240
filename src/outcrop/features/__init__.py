"""Features of sections and descriptors of whole patches, with pretrained nets and without."""
