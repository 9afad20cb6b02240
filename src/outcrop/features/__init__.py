"""Pretrained nets: features of sections, descriptions of whole patches."""
