"""A study of approximate nearest neighbours: what each kind of index finds and costs as a collection grows."""
