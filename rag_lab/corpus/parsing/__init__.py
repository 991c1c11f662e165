"""Parsers: from the bytes of a source to text, structure and offsets, one file per format."""
